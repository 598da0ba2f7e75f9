DELETE FROM log_marks WHERE attempt_id = ANY ($1::uuid[]) AND after_seq < $2
