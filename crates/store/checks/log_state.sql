SELECT NULL AS job, NULL AS ix, c.attempt_id AS other,
       CASE WHEN l.attempt_id IS NULL THEN 'it has lines, and nothing says how far its log has got'
            ELSE 'it has line ' || c.last_seq || ', and its log is said to end with line ' || l.last_seq END AS what
FROM (SELECT attempt_id, max(last_seq) AS last_seq FROM log_chunks GROUP BY attempt_id) c
LEFT JOIN logs l ON l.attempt_id = c.attempt_id
WHERE l.attempt_id IS NULL OR l.last_seq < c.last_seq
