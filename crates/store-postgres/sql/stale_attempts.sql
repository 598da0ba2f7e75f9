-- What a worker holds, and when it last gave a sign of life: the runner once one was heard, else the worker itself.
-- The sums keep the planner from walking all signs of life from the newest on.
SELECT s.job_id, s.ix, s.name, s.state, s.attempt_id, s.worker_id, w.name, coalesce(w.hostname, ''),
       c.last_at, r.last_at, s.updated_at
FROM steps s
LEFT JOIN workers w ON w.id = s.worker_id
LEFT JOIN LATERAL (SELECT max(b.last_at + 0) AS last_at FROM beats b WHERE b.attempt_id = s.attempt_id AND b.role = 'claimer') c ON true
LEFT JOIN LATERAL (SELECT max(b.last_at + 0) AS last_at FROM beats b WHERE b.attempt_id = s.attempt_id AND b.role = 'runner') r ON true
WHERE s.attempt_id IS NOT NULL AND coalesce(r.last_at, c.last_at, s.updated_at) < $1
ORDER BY coalesce(r.last_at, c.last_at, s.updated_at), s.attempt_id
LIMIT $2
