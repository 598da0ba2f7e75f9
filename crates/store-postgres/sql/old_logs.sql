-- From one attempt with lines to the next, and what is known of each.
WITH RECURSIVE logged (id, place) AS (
    SELECT $1::uuid, 0::bigint
    UNION ALL
    SELECT (
        SELECT attempt_id FROM log_chunks WHERE attempt_id > logged.id AND attempt_id < $2 ORDER BY attempt_id LIMIT 1
    ), place + 1
    FROM logged WHERE id IS NOT NULL AND place < $3
)
SELECT logged.id, j.id, j.ended_at, coalesce(l.complete, false)
FROM logged
LEFT JOIN attempts a ON a.id = logged.id
LEFT JOIN jobs j ON j.id = a.job_id
LEFT JOIN logs l ON l.attempt_id = logged.id
WHERE logged.place > 0 AND logged.id IS NOT NULL
ORDER BY logged.place
