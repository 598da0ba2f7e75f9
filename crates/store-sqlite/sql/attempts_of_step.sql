SELECT id, number FROM attempts WHERE job_id = ?1 AND ix = ?2 ORDER BY number
