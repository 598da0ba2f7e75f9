SELECT id, job_id, kind, body, created_at, tries, next_at, delivered_at, error
FROM outbox WHERE id = $1
