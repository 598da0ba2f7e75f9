-- The first one stays.
UPDATE attempts SET late_outcome = ?2, late_at = ?3 WHERE id = ?1 AND late_outcome IS NULL
