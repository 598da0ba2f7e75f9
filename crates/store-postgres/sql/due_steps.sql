SELECT check_at, job_id, ix, state = 'queued' FROM steps WHERE check_at <= $1
ORDER BY check_at, state, attempt_id NULLS FIRST, job_id, ix LIMIT $2
