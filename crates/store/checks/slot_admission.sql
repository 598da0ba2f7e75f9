SELECT id AS job, NULL AS ix, NULL AS other,
       CASE WHEN slot_group IS NULL THEN 'it was admitted, and has no group'
            ELSE 'it waits for its group ' || slot_group || ', and has begun' END AS what
FROM jobs
WHERE (slot_group IS NULL AND admitted_at IS NOT NULL)
   OR (slot_group IS NOT NULL AND admitted_at IS NULL AND (state IN ('running', 'held', 'recovering') OR started_at IS NOT NULL))
