-- A worker with something that may still run is never deleted.
SELECT a.job_id AS job, a.ix, a.id AS other, 'it may still run, and its worker is not on record' AS what
FROM attempts a WHERE NOT a.confirmed AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = a.worker_id)
UNION ALL
SELECT s.job_id, s.ix, s.attempt_id, 'it is offered to a worker that is not on record'
FROM steps s WHERE s.state = 'queued' AND s.worker_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = s.worker_id)
