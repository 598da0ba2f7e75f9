UPDATE outbox SET tries = r.tries, next_at = r.next_at, delivered_at = r.delivered_at, error = r.error
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])
    AS r (id, expected, tries, next_at, delivered_at, error)
WHERE outbox.id = r.id AND outbox.tries = r.expected AND outbox.delivered_at IS NULL
RETURNING outbox.id
