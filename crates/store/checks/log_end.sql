SELECT NULL AS job, NULL AS ix, attempt_id AS other,
       'its log is ' || CASE WHEN closed THEN 'closed' WHEN complete THEN 'whole' ELSE 'open' END || ' at line ' || last_seq
       || CASE WHEN end_seq IS NULL THEN '' ELSE ', its last line is ' || end_seq END
       || CASE WHEN close_at IS NULL THEN '' ELSE ', and it is still waited for' END AS what
FROM logs
WHERE (complete AND NOT closed AND end_seq > last_seq) OR (closed AND NOT complete) OR (complete AND close_at IS NOT NULL)
