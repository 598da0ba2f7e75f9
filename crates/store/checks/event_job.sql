SELECT e.job_id AS job, NULL AS ix, NULL AS other, 'it has a history, and is not on record' AS what
FROM (SELECT DISTINCT job_id FROM events) e
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = e.job_id)
  AND e.job_id NOT IN (SELECT job_id FROM doomed) AND e.job_id >= (SELECT deleted FROM known)
