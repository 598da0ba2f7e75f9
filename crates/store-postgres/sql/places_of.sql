-- As `place_of` has it, for many.
SELECT r.id, place.job_id, place.ix
FROM unnest($1::uuid[]) AS r (id)
CROSS JOIN LATERAL (
    SELECT job_id, ix FROM attempts WHERE attempts.id = r.id AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id)
    UNION ALL
    SELECT job_id, ix FROM steps WHERE attempt_id = r.id
    LIMIT 1
) AS place
