SELECT job_id, ix FROM steps INDEXED BY steps_due
WHERE check_at IS NOT NULL AND state = 'queued' AND attempt_id IS NULL
ORDER BY job_id, ix
