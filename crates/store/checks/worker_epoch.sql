SELECT NULL AS job, NULL AS ix, id AS other,
       'worker ' || name || ' has spoken on link ' || used_epoch || ', and its last one is ' || epoch AS what
FROM workers WHERE used_epoch > epoch
UNION ALL
SELECT a.job_id, a.ix, a.id, 'it is on link ' || a.epoch || ' of worker ' || w.name || ', whose last one is ' || w.epoch
FROM attempts a JOIN workers w ON w.id = a.worker_id WHERE a.epoch > w.epoch
