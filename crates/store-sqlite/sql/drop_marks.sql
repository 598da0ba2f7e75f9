DELETE FROM log_marks WHERE attempt_id = ?1 AND after_seq < ?2
