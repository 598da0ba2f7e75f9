DELETE FROM events WHERE id IN (SELECT id FROM events WHERE job_id = $1 ORDER BY id LIMIT $2)
