-- One row for each attempt, and one without where there is none.
SELECT s.state, a.id, a.number
FROM steps s LEFT JOIN attempts a ON a.job_id = s.job_id AND a.ix = s.ix
WHERE s.job_id = $1 AND s.ix = $2
ORDER BY a.number, a.id
