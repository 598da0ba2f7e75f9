SELECT id FROM attempts WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE
