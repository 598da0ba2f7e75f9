SELECT id, version FROM triggers WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE
