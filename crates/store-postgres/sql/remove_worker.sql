-- The first removal stays.
UPDATE workers SET removed_at = r.at FROM unnest($1::uuid[], $2::bigint[]) AS r (id, at)
WHERE workers.id = r.id AND workers.removed_at IS NULL
