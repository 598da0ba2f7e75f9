SELECT l.attempt_id, l.last_seq, l.end_seq, a.worker_id
FROM logs l LEFT JOIN attempts a ON a.id = l.attempt_id
WHERE l.close_at <= $1 ORDER BY l.close_at, l.attempt_id LIMIT $2
