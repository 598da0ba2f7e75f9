-- What is left of a job that is off the record is nobody's. An offer is only in its step's row.
SELECT job_id, ix FROM attempts WHERE id = $1 AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id)
UNION ALL
SELECT job_id, ix FROM steps WHERE attempt_id = $1
LIMIT 1
