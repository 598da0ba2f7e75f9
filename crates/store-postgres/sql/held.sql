SELECT job_id, ix FROM steps WHERE attempt_id IS NOT NULL ORDER BY job_id, ix
