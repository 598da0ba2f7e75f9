-- In ascending order, so that two servers which want the same jobs wait for each other, and never both.
SELECT id, version FROM jobs WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE
