DELETE FROM beats WHERE attempt_id = ANY ($1::uuid[])
