SELECT job_id AS job, ix, NULL AS other, 'it is looked at only in ' || (check_at - known.now) / 1000000 || ' s' AS what
FROM steps, known WHERE check_at > known.latest
