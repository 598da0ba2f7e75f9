SELECT last_seq, complete FROM logs WHERE attempt_id = ?1
