INSERT INTO tokens (id, kind, role, name, hash, tags, uses_left, created_at, expires_at, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (id) DO UPDATE SET
    kind = excluded.kind, role = excluded.role, name = excluded.name, hash = excluded.hash, tags = excluded.tags,
    uses_left = excluded.uses_left, created_at = excluded.created_at, expires_at = excluded.expires_at,
    revoked_at = excluded.revoked_at
