UPDATE counters SET value = value + 1 WHERE name = 'server' RETURNING value
