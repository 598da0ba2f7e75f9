SELECT job_id AS job, NULL AS ix, NULL AS other, 'it has ' || count(*) || ' steps, the last of them in place ' || max(ix) AS what
FROM steps
WHERE job_id NOT IN (SELECT job_id FROM doomed)
GROUP BY job_id HAVING max(ix) + 1 <> count(*) OR min(ix) <> 0
UNION ALL
SELECT id, NULL, NULL, 'it has no steps' FROM jobs j WHERE NOT EXISTS (SELECT 1 FROM steps s WHERE s.job_id = j.id)
