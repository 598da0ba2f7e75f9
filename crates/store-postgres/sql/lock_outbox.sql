SELECT id FROM outbox WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE
