-- Measured by the last mark: while no server runs nobody looks at anything.
SELECT id AS job, NULL AS ix, NULL AS other, 'it should have been looked at ' || (known.marked - check_at) / 1000000 || ' s before the last mark' AS what
FROM jobs, known WHERE check_at < known.overdue
