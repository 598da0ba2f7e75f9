DELETE FROM beats WHERE (attempt_id, sender_id, role) IN (
    SELECT attempt_id, sender_id, role FROM beats WHERE last_at < $1 ORDER BY last_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
