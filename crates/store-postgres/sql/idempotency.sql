SELECT request_hash, job_id, created_at FROM idempotency WHERE token_id = $1 AND key = $2
