SELECT job_id, ix, state, coalesce(owner = 'operator', 0), worker_id, attempt_id, updated_at
FROM steps INDEXED BY steps_held WHERE attempt_id IS NOT NULL
