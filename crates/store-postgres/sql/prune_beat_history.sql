DELETE FROM beat_history WHERE (attempt_id, sender_id, role, first_at) IN (
    SELECT attempt_id, sender_id, role, first_at FROM beat_history WHERE last_at < $1 ORDER BY last_at LIMIT $2
)
