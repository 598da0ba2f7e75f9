-- What was heard since the last time is added to the stretch, or begins a new one. $10: the silence that ends a stretch.
INSERT INTO beats AS b (attempt_id, sender_id, role, hostname, pid, first_at, last_at, count, longest_gap)
SELECT * FROM unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]
)
ON CONFLICT (attempt_id, sender_id, role) DO UPDATE SET
    hostname = excluded.hostname,
    pid = excluded.pid,
    first_at = CASE WHEN b.hostname <> excluded.hostname OR b.pid <> excluded.pid OR excluded.first_at - b.last_at > $10
                    THEN excluded.first_at ELSE b.first_at END,
    count = CASE WHEN b.hostname <> excluded.hostname OR b.pid <> excluded.pid OR excluded.first_at - b.last_at > $10
                 THEN excluded.count ELSE b.count + excluded.count END,
    longest_gap = CASE WHEN b.hostname <> excluded.hostname OR b.pid <> excluded.pid
                       THEN excluded.longest_gap
                       ELSE greatest(b.longest_gap, excluded.longest_gap, excluded.first_at - b.last_at) END,
    last_at = excluded.last_at
WHERE excluded.last_at >= b.last_at
