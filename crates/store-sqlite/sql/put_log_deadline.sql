INSERT INTO logs (attempt_id, last_seq, complete, closed, close_at, end_seq) VALUES (?1, 0, 0, 0, ?2, ?3)
ON CONFLICT (attempt_id) DO UPDATE SET close_at = excluded.close_at, end_seq = coalesce(excluded.end_seq, end_seq)
WHERE NOT complete
