UPDATE workers SET last_seen_at = r.at FROM unnest($1::uuid[], $2::bigint[]) AS r (id, at)
WHERE workers.id = r.id AND (workers.last_seen_at IS NULL OR workers.last_seen_at < r.at)
