DELETE FROM events WHERE id IN (SELECT id FROM events WHERE job_id = ?1 LIMIT ?2)
