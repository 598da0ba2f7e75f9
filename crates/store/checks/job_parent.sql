SELECT j.id AS job, NULL AS ix, j.parent_job AS other, 'the step that began it is not on record' AS what
FROM jobs j
WHERE (j.parent_job IS NULL) <> (j.parent_step IS NULL)
   OR (j.parent_job IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM steps p WHERE p.job_id = j.parent_job AND p.ix = j.parent_step)
       AND j.parent_job >= (SELECT deleted FROM known))
