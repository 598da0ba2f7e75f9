SELECT a.job_id AS job, a.ix, a.id AS other, 'it is ' || a.state || ', and its step, which is ' || s.state || ', does not have it' AS what
FROM attempts a JOIN steps s ON s.job_id = a.job_id AND s.ix = a.ix
WHERE a.state IN ('running', 'recovering') AND s.attempt_id IS DISTINCT FROM a.id
