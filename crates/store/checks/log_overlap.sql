SELECT NULL AS job, NULL AS ix, attempt_id AS other,
       'lines ' || first_seq || ' to ' || last_seq || ' follow a piece that ends with line ' || before AS what
FROM (
    SELECT attempt_id, first_seq, last_seq, lag(last_seq, 1, 0) OVER (PARTITION BY attempt_id ORDER BY first_seq) AS before
    FROM log_chunks
) c
WHERE first_seq <= before OR last_seq < first_seq
