-- By the ids of their jobs, which begin with a time: of those that are old most have gone.
SELECT count(*) FROM outbox o
WHERE o.job_id < $1 AND o.created_at < $2 AND o.next_at IS NULL AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = o.job_id)
