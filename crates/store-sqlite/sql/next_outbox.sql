SELECT MIN(next_at) FROM outbox WHERE next_at IS NOT NULL
