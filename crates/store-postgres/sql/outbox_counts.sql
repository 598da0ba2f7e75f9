SELECT (SELECT count(*) FROM outbox WHERE next_at IS NOT NULL),
       (SELECT count(*) FROM outbox WHERE next_at IS NULL AND delivered_at IS NULL)
