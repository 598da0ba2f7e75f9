SELECT id, job_id FROM events WHERE id > $1 ORDER BY id LIMIT $2
