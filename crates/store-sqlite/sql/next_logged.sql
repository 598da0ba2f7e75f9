SELECT min(attempt_id) FROM log_chunks WHERE attempt_id > ?1 AND attempt_id < ?2
