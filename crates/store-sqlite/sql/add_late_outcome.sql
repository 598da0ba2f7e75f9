-- The first one stays. Its own word on its end is proof that it is over. One that ended in time only repeats itself.
UPDATE attempts SET late_outcome = ?2, late_at = ?3, confirmed = 1
WHERE id = ?1 AND late_outcome IS NULL AND state <> 'ended'
