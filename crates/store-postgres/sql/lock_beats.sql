SELECT attempt_id FROM beats WHERE attempt_id = ANY ($1::uuid[]) ORDER BY attempt_id, sender_id, role FOR UPDATE
