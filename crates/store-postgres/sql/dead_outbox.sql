SELECT id, job_id, kind, body, created_at, tries, next_at, delivered_at, error
FROM outbox WHERE next_at IS NULL AND delivered_at IS NULL ORDER BY created_at DESC, id LIMIT $1
