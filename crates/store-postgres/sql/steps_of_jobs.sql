SELECT ix, state, check_at, updated_at, data, job_id FROM steps WHERE job_id = ANY ($1::uuid[]) ORDER BY job_id, ix
