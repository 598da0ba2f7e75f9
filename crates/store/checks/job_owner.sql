SELECT id AS job, NULL AS ix, NULL AS other,
       'it is ' || state || ', and its owner is ' || coalesce(owner, 'nobody') || ', its check time '
       || CASE WHEN check_at IS NULL THEN 'none' ELSE 'set' END || ', its action ' || coalesce(action, 'none') AS what
FROM jobs
WHERE (state IN ('success', 'failed', 'cancelled')) <> (check_at IS NULL)
   OR (check_at IS NULL) <> (owner IS NULL) OR (check_at IS NULL) <> (action IS NULL)
