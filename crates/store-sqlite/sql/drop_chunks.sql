DELETE FROM log_chunks WHERE attempt_id = ?1 AND first_seq <= ?2
