INSERT INTO logs (attempt_id, last_seq, complete, closed) VALUES (?1, ?2, ?3, 0)
ON CONFLICT (attempt_id) DO UPDATE SET
    last_seq = excluded.last_seq, complete = excluded.complete, closed = 0,
    close_at = CASE WHEN excluded.complete THEN NULL ELSE close_at END
