INSERT INTO outbox (id, job_id, kind, body, created_at, next_at)
SELECT id, job_id, kind, body, created_at, created_at
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[]) AS r (id, job_id, kind, body, created_at)
