SELECT id, job_id, kind, body, created_at, tries, next_at, delivered_at, error
FROM outbox WHERE job_id = $1 ORDER BY created_at, id LIMIT $2
