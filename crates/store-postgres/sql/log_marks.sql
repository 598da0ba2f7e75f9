SELECT after_seq, sub, at, missing, closing, text FROM log_marks
WHERE attempt_id = $1 AND after_seq BETWEEN $2 AND $3
ORDER BY after_seq, sub
LIMIT $4
