DELETE FROM beats WHERE attempt_id = ?1
