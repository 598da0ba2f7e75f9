INSERT INTO idempotency (token_id, key, request_hash, job_id, created_at)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::uuid[], $5::bigint[])
