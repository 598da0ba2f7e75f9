DELETE FROM idempotency WHERE job_id = ANY ($1::uuid[])
