SELECT s.job_id AS job, s.ix, NULL AS other, 'its job is not on record' AS what
FROM steps s
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = s.job_id)
  AND s.job_id NOT IN (SELECT job_id FROM doomed)
