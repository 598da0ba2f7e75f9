SELECT id, epoch FROM workers WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE
