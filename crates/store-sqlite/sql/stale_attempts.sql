-- What a worker holds, and when it last gave a sign of life: the runner once one was heard, else the worker itself.
SELECT s.job_id, s.ix, s.name, s.state, s.attempt_id, s.worker_id, w.name, coalesce(w.hostname, ''),
       (SELECT max(b.last_at) FROM beats b WHERE b.attempt_id = s.attempt_id AND b.role = 'claimer') AS claimer_at,
       (SELECT max(b.last_at) FROM beats b WHERE b.attempt_id = s.attempt_id AND b.role = 'runner') AS runner_at,
       s.updated_at
FROM steps s INDEXED BY steps_held
LEFT JOIN workers w ON w.id = s.worker_id
WHERE s.attempt_id IS NOT NULL AND coalesce(runner_at, claimer_at, s.updated_at) < ?1
ORDER BY coalesce(runner_at, claimer_at, s.updated_at)
LIMIT ?2
