UPDATE breaker SET ended_at = $1 WHERE id = 1 AND ended_at IS NULL
