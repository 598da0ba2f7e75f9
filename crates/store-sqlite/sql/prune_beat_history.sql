DELETE FROM beat_history WHERE (attempt_id, sender_id, role, first_at) IN (
    SELECT attempt_id, sender_id, role, first_at FROM beat_history INDEXED BY beat_history_by_age WHERE last_at < ?1 LIMIT ?2
)
