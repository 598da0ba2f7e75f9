UPDATE tokens SET uses_left = uses_left - 1
WHERE hash = $1 AND kind = 'enroll' AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > $2)
  AND (uses_left IS NULL OR uses_left > 0)
