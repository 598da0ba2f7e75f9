SELECT id, priority, created_at FROM jobs
WHERE slot_group = $1 AND admitted_at IS NULL AND check_at IS NOT NULL
ORDER BY priority DESC, created_at, id LIMIT $2
