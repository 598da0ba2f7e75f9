SELECT min(next_at) FROM outbox WHERE next_at IS NOT NULL
