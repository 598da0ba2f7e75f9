INSERT INTO log_chunks (attempt_id, first_seq, last_seq, blocks) VALUES (?1, ?2, ?3, ?4)
