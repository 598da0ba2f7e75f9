SELECT l.job_id AS job, NULL AS ix, l.continues AS other,
       CASE WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.id = l.job_id) THEN 'it goes on for a job that is not on record'
            ELSE 'it goes on for another job, and is not on record' END AS what
FROM lineage l
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = l.job_id)
   OR (l.continues >= (SELECT deleted FROM known) AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = l.continues))
