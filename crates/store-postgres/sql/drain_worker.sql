UPDATE workers SET draining = r.draining FROM unnest($1::uuid[], $2::boolean[]) AS r (id, draining) WHERE workers.id = r.id
