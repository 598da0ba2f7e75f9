-- A block of fences begins at the clock in microseconds at least: one below that cannot be given again, whatever the counter says.
SELECT a.job_id AS job, a.ix, a.id AS other, 'its fence ' || a.fence || ' was never given' AS what
FROM attempts a, known
WHERE a.fence > known.now AND a.fence > coalesce((SELECT value FROM counters WHERE name = 'fence'), 0)
UNION ALL
SELECT s.job_id, s.ix, s.attempt_id, 'its fence ' || s.fence || ' was never given'
FROM steps s, known
WHERE s.state = 'queued' AND s.fence > known.now AND s.fence > coalesce((SELECT value FROM counters WHERE name = 'fence'), 0)
