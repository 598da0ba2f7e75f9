DELETE FROM beat_history WHERE attempt_id = ANY ($1::uuid[])
