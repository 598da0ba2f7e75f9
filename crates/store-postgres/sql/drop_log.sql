DELETE FROM logs WHERE attempt_id = ANY ($1::uuid[])
