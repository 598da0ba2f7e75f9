SELECT id AS job, NULL AS ix, NULL AS other, 'it is looked at only in ' || (check_at - known.now) / 1000000 || ' s' AS what
FROM jobs, known WHERE check_at > known.latest
