SELECT number, confirmed, state = 'ended' OR late_outcome IS NOT NULL FROM attempts
WHERE id = $1 AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id)
