SELECT id, generation, address, started_at, beat_at, beat_heard, left_at FROM servers ORDER BY generation, id
