SELECT count(*) FROM quarantine q
WHERE q.at < ?1 AND (q.job_id IS NULL OR NOT EXISTS (SELECT 1 FROM jobs WHERE id = q.job_id))
