INSERT INTO idempotency (token_id, key, request_hash, job_id, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
