INSERT INTO quarantine (job_id, at, event, error)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[])
