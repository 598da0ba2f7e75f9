SELECT id FROM attempts WHERE job_id = ?1 LIMIT ?2
