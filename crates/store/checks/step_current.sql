SELECT s.job_id AS job, s.ix, s.attempt_id AS other,
       CASE WHEN s.state = 'queued' THEN 'it was only offered, and is on record as granted'
            WHEN a.id IS NULL THEN 'it is the current one of a step that is ' || s.state || ', and not on record'
            ELSE 'its step is ' || s.state || ' and it is ' || a.state || ', or they differ in job, place, fence or worker'
       END AS what
FROM steps s LEFT JOIN attempts a ON a.id = s.attempt_id
WHERE s.attempt_id IS NOT NULL
  AND ((s.state = 'queued' AND a.id IS NOT NULL)
    OR (s.state IN ('running', 'recovering', 'cancelling', 'held')
        AND (a.id IS NULL OR a.job_id <> s.job_id OR a.ix <> s.ix OR a.fence <> s.fence OR a.worker_id <> s.worker_id
          OR a.state <> CASE WHEN s.state IN ('recovering', 'held') THEN 'recovering' ELSE 'running' END)))
