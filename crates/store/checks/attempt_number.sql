SELECT job_id AS job, ix, id AS other, 'its number is ' || number || ', after ' || before AS what
FROM (
    SELECT job_id, ix, id, number, lag(number, 1, 0) OVER (PARTITION BY job_id, ix ORDER BY number) AS before FROM attempts
) a
WHERE number <> before + 1 AND job_id NOT IN (SELECT job_id FROM doomed)
