-- What is left of a job that is off the record is nobody's.
SELECT job_id, ix FROM attempts WHERE id = ?1 AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id)
