SELECT job_id, ix, state, coalesce(owner = 'operator', false), worker_id, attempt_id, updated_at
FROM steps WHERE attempt_id IS NOT NULL ORDER BY attempt_id
