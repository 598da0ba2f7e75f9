UPDATE outbox SET tries = ?3, next_at = ?4, delivered_at = ?5, error = ?6
WHERE id = ?1 AND tries = ?2 AND delivered_at IS NULL
