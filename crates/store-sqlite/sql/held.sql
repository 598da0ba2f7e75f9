SELECT job_id, ix FROM steps INDEXED BY steps_held WHERE attempt_id IS NOT NULL ORDER BY job_id, ix
