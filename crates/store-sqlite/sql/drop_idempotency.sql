DELETE FROM idempotency WHERE job_id = ?1
