SELECT check_at, job_id, ix, state = 'queued' FROM steps WHERE check_at <= ?1 ORDER BY check_at LIMIT ?2
