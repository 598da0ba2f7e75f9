SELECT sender_id, role, hostname, pid, first_at, last_at, count, longest_gap FROM beats WHERE attempt_id = $1 ORDER BY role, last_at, sender_id
