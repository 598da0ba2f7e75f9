-- Measured by the last mark: while no server runs nobody looks at anything.
SELECT job_id AS job, ix, NULL AS other, 'it should have been looked at ' || (known.marked - check_at) / 1000000 || ' s before the last mark' AS what
FROM steps, known WHERE check_at < known.overdue
