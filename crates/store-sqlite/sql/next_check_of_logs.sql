SELECT min(close_at) FROM logs WHERE close_at IS NOT NULL
