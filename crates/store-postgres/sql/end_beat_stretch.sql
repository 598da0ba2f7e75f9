-- $7: the silence that ends a stretch, in microseconds.
INSERT INTO beat_history (attempt_id, sender_id, role, hostname, pid, first_at, last_at, count, longest_gap)
SELECT b.attempt_id, b.sender_id, b.role, b.hostname, b.pid, b.first_at, b.last_at, b.count, b.longest_gap
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
    AS r (attempt_id, sender_id, role, hostname, pid, first_at)
JOIN beats b ON b.attempt_id = r.attempt_id AND b.sender_id = r.sender_id AND b.role = r.role
WHERE b.hostname <> r.hostname OR b.pid <> r.pid OR r.first_at - b.last_at > $7
ON CONFLICT (attempt_id, sender_id, role, first_at) DO NOTHING
