SELECT j.id AS job, NULL AS ix, NULL AS other,
       'it is ' || j.state || ', and ' || CASE WHEN s.job_id IS NULL THEN 'all its steps are over' ELSE 'a step of it is not over' END AS what
FROM jobs j LEFT JOIN (
    SELECT DISTINCT job_id FROM steps WHERE state NOT IN ('success', 'failed', 'cancelled', 'skipped')
) s ON s.job_id = j.id
WHERE (j.state IN ('success', 'failed', 'cancelled')) = (s.job_id IS NOT NULL)
