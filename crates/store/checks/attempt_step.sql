SELECT a.job_id AS job, a.ix, a.id AS other, 'its step is not on record' AS what
FROM attempts a
WHERE NOT EXISTS (SELECT 1 FROM steps s WHERE s.job_id = a.job_id AND s.ix = a.ix)
  AND a.job_id NOT IN (SELECT job_id FROM doomed)
