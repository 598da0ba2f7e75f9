INSERT INTO logs (attempt_id, last_seq, complete, closed, close_at, end_seq)
SELECT attempt_id, 0, false, false, close_at, end_seq
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS r (attempt_id, close_at, end_seq)
ON CONFLICT (attempt_id) DO UPDATE SET
    close_at = excluded.close_at, end_seq = coalesce(excluded.end_seq, logs.end_seq)
WHERE NOT logs.complete
