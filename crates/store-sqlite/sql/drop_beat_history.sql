DELETE FROM beat_history WHERE attempt_id = ?1
