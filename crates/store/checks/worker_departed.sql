SELECT NULL AS job, NULL AS ix, w.id AS other, 'worker ' || w.name || ' was deleted, and is on record' AS what
FROM workers w JOIN departed d ON d.worker_id = w.id
