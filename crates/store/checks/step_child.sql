SELECT s.job_id AS job, s.ix, NULL AS other, 'the job that does it is not on record' AS what
FROM steps s
WHERE s.owner = 'child' AND NOT EXISTS (SELECT 1 FROM jobs c WHERE c.parent_job = s.job_id AND c.parent_step = s.ix)
