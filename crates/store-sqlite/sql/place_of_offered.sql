SELECT job_id, ix FROM steps WHERE attempt_id = ?1
