-- One that was under way by a record that was put back is held with its attempt. One whose items or whose child do it has no attempt of its own.
SELECT job_id AS job, ix, attempt_id AS other,
       'it is ' || state || ', and has ' || CASE WHEN attempt_id IS NULL THEN 'no attempt' ELSE 'an attempt' END
       || CASE WHEN worker_id IS NULL THEN ', no worker' ELSE ', a worker' END
       || CASE WHEN fence IS NULL THEN ', no fence' ELSE ', a fence' END AS what
FROM steps
WHERE (state IN ('running', 'recovering', 'cancelling') AND owner NOT IN ('steps', 'child') AND attempt_id IS NULL)
   OR (state NOT IN ('queued', 'running', 'recovering', 'cancelling', 'held') AND attempt_id IS NOT NULL)
   OR (attempt_id IS NULL) <> (worker_id IS NULL) OR (attempt_id IS NULL) <> (fence IS NULL)
