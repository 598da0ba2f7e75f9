SELECT job_id, ix FROM attempts WHERE id = ?1
