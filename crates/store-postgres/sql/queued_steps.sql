SELECT job_id, ix FROM steps
WHERE check_at IS NOT NULL AND state = 'queued' AND attempt_id IS NULL
ORDER BY job_id, ix
