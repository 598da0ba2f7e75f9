SELECT job_id AS job, ix, id AS other, 'attempt ' || number || ' has fence ' || fence || ', after ' || before AS what
FROM (
    SELECT job_id, ix, id, number, fence, lag(fence) OVER (PARTITION BY job_id, ix ORDER BY number) AS before FROM attempts
) a
-- The same one twice is another check's.
WHERE fence < before
