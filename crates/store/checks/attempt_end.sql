SELECT job_id AS job, ix, id AS other,
       'it is ' || state || ', it has ' || CASE WHEN ended_at IS NULL THEN 'no' ELSE 'a' END || ' time of its end, and is '
       || CASE WHEN confirmed THEN 'over for certain' ELSE 'not over for certain' END AS what
FROM attempts
WHERE (state IN ('running', 'recovering')) <> (ended_at IS NULL)
   OR (state IN ('running', 'recovering') AND confirmed) OR (state = 'ended' AND NOT confirmed)
