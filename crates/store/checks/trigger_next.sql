SELECT NULL AS job, NULL AS ix, NULL AS other,
       'trigger ' || id || CASE WHEN paused_at IS NOT NULL THEN ' is paused, and due' WHEN planned_at IS NULL THEN ' is due, for no time'
                                ELSE ' has a time, and is not due' END AS what
FROM triggers
WHERE (paused_at IS NOT NULL AND next_at IS NOT NULL) OR (planned_at IS NULL AND next_at IS NOT NULL)
   OR (planned_at IS NOT NULL AND next_at IS NULL AND paused_at IS NULL AND last_error IS NULL)
