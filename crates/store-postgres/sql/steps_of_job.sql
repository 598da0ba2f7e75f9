SELECT ix, state, check_at, updated_at, data FROM steps WHERE job_id = $1 ORDER BY ix
