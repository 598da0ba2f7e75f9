-- Evidence, not a state: what was given up is now known to be over.
UPDATE attempts SET confirmed = 1 WHERE id = ?1 AND fence = ?2
