SELECT e.id, e.job_id, e.ix, s.name, e.at, e.kind, e.verb, e."from", e."to", e.worker_id, e.reason
FROM events e LEFT JOIN steps s ON s.job_id = e.job_id AND s.ix = e.ix
WHERE e.id > $1
ORDER BY e.id LIMIT $2
