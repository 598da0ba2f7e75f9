SELECT job_id AS job, ix, NULL AS other, 'an event has number ' || id || ', which was never given' AS what
FROM events WHERE id > (SELECT value FROM counters WHERE name = 'event')
