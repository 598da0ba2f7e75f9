-- With how many rows besides chunks each has.
SELECT a.id,
       (SELECT count(*) FROM log_marks m WHERE m.attempt_id = a.id)
       + (SELECT count(*) FROM logs l WHERE l.attempt_id = a.id)
       + (SELECT count(*) FROM beats b WHERE b.attempt_id = a.id)
       + (SELECT count(*) FROM beat_history h WHERE h.attempt_id = a.id)
       + 1
FROM attempts a WHERE a.job_id = $1 ORDER BY a.ix, a.number, a.id LIMIT $2
