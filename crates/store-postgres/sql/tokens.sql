SELECT id, kind, role, name, hash, tags, uses_left, created_at, expires_at, revoked_at
FROM tokens ORDER BY created_at, id
