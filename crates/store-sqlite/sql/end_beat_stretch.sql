-- ?6: the silence that ends a stretch, in microseconds.
INSERT OR IGNORE INTO beat_history
SELECT * FROM beats
WHERE attempt_id = ?1 AND sender_id = ?2 AND role = ?3
  AND (hostname <> ?4 OR pid <> ?5 OR ?7 - last_at > ?6)
