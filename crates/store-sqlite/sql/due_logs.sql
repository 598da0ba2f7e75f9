SELECT attempt_id, last_seq, end_seq FROM logs WHERE close_at <= ?1 ORDER BY close_at LIMIT ?2
