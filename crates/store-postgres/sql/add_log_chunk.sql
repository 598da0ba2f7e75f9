INSERT INTO log_chunks (attempt_id, first_seq, last_seq, blocks)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[])
