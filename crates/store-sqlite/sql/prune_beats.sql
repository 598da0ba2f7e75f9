DELETE FROM beats WHERE (attempt_id, sender_id, role) IN (
    SELECT attempt_id, sender_id, role FROM beats INDEXED BY beats_by_age WHERE last_at < ?1 LIMIT ?2
)
