-- Of each attempt in the order of asking, from its first line on: where each ends, its lines and its bytes.
SELECT r.id, c.last_seq, c.last_seq - c.first_seq + 1, octet_length(c.blocks)::bigint
FROM unnest($1::uuid[]) WITH ORDINALITY AS r (id, place)
CROSS JOIN LATERAL (SELECT * FROM log_chunks WHERE attempt_id = r.id ORDER BY first_seq LIMIT $2) c
ORDER BY r.place, c.first_seq LIMIT $2
