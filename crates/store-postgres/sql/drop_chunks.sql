DELETE FROM log_chunks USING unnest($1::uuid[], $2::bigint[]) AS r (id, last_seq)
WHERE attempt_id = r.id AND first_seq <= r.last_seq
