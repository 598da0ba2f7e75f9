-- What a mark announces after the last line has yet to come; and a job that goes loses its lines without a word.
SELECT a.job_id AS job, a.ix, l.attempt_id AS other,
       'of ' || l.last_seq || ' lines ' || coalesce(c.lines, 0) || ' are stored, and ' || coalesce(m.lines, 0) || ' are said to be missing' AS what
FROM logs l
LEFT JOIN (
    SELECT attempt_id, sum(last_seq - first_seq + 1) AS lines FROM log_chunks GROUP BY attempt_id
) c ON c.attempt_id = l.attempt_id
LEFT JOIN (
    SELECT n.attempt_id, sum(n.missing) AS lines FROM log_marks n JOIN logs k ON k.attempt_id = n.attempt_id
    WHERE n.missing > 0 AND n.after_seq < k.last_seq GROUP BY n.attempt_id
) m ON m.attempt_id = l.attempt_id
LEFT JOIN attempts a ON a.id = l.attempt_id
WHERE coalesce(c.lines, 0) + coalesce(m.lines, 0) < l.last_seq
  AND (a.job_id IS NULL OR a.job_id NOT IN (SELECT job_id FROM doomed))
