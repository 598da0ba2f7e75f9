DELETE FROM logs WHERE attempt_id = ?1
