INSERT INTO servers (id, generation, address, started_at, beat_at, beat_heard, left_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (id) DO UPDATE SET
    address = excluded.address,
    beat_at = excluded.beat_at,
    beat_heard = excluded.beat_heard,
    left_at = excluded.left_at
