SELECT d.job_id AS job, NULL AS ix, NULL AS other, 'it was deleted, and is on record' AS what
FROM doomed d JOIN jobs j ON j.id = d.job_id
