SELECT attempt_id, last_seq, complete, closed FROM logs WHERE attempt_id = ANY ($1::uuid[]) ORDER BY attempt_id FOR UPDATE
