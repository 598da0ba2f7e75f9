-- Evidence, not a state: its worker said that its process runs.
UPDATE attempts SET begun = 1 WHERE id = ?1 AND fence = ?2
