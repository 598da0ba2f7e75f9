DELETE FROM attempts WHERE id = ANY ($1::uuid[])
