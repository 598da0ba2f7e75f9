SELECT last_seq, last_seq - first_seq + 1, length(blocks) FROM log_chunks WHERE attempt_id = ?1 ORDER BY first_seq LIMIT ?2
