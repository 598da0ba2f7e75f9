SELECT max(last_seq) FROM log_chunks WHERE attempt_id = ?1
