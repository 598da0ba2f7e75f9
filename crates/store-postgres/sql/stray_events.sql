-- Those of no job at all too: nothing is equal to NULL.
SELECT count(*) FROM quarantine q WHERE q.at < $1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = q.job_id)
