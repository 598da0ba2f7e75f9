SELECT id, job_id, kind, body, created_at, tries, next_at, delivered_at, error
FROM outbox WHERE next_at <= $1 ORDER BY next_at, id LIMIT $2
