-- What was heard since the last time is added to the stretch, or begins a new one. ?10: the silence that ends a stretch.
INSERT INTO beats (attempt_id, sender_id, role, hostname, pid, first_at, last_at, count, longest_gap)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (attempt_id, sender_id, role) DO UPDATE SET
    hostname = excluded.hostname,
    pid = excluded.pid,
    first_at = CASE WHEN hostname <> excluded.hostname OR pid <> excluded.pid OR excluded.first_at - last_at > ?10
                    THEN excluded.first_at ELSE first_at END,
    count = CASE WHEN hostname <> excluded.hostname OR pid <> excluded.pid OR excluded.first_at - last_at > ?10
                 THEN excluded.count ELSE count + excluded.count END,
    longest_gap = CASE WHEN hostname <> excluded.hostname OR pid <> excluded.pid
                       THEN excluded.longest_gap
                       ELSE max(longest_gap, excluded.longest_gap, excluded.first_at - last_at) END,
    last_at = excluded.last_at
WHERE excluded.last_at >= last_at
