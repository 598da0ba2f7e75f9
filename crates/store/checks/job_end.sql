SELECT id AS job, NULL AS ix, NULL AS other,
       'it is ' || state || ', it has ' || CASE WHEN ended_at IS NULL THEN 'no' ELSE 'a' END || ' time of its end, and '
       || CASE WHEN error_code IS NULL THEN 'no error' ELSE 'the error ' || error_code END AS what
FROM jobs
WHERE (state IN ('success', 'failed', 'cancelled')) <> (ended_at IS NOT NULL)
   OR (state IN ('failed', 'cancelled') AND error_code IS NULL) OR (state = 'success' AND error_code IS NOT NULL)
