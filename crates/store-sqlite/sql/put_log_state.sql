INSERT INTO logs (attempt_id, last_seq, complete) VALUES (?1, ?2, ?3)
ON CONFLICT (attempt_id) DO UPDATE SET last_seq = excluded.last_seq, complete = excluded.complete
