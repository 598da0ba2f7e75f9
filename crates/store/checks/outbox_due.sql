SELECT job_id AS job, NULL AS ix, id AS other,
       CASE WHEN delivered_at IS NULL THEN 'it was never tried, and is due at no time' ELSE 'it is delivered, and due again' END AS what
FROM outbox
WHERE (delivered_at IS NOT NULL AND next_at IS NOT NULL) OR (delivered_at IS NULL AND next_at IS NULL AND (tries = 0 OR error IS NULL))
