-- Its last words stand after all others at the same place; none where no line is missing.
WITH closed AS (
    UPDATE logs SET complete = true, closed = r.text IS NOT NULL, close_at = NULL
    FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS r (attempt_id, after_seq, text)
    WHERE logs.attempt_id = r.attempt_id AND NOT logs.complete
    RETURNING logs.attempt_id, r.after_seq, r.text
)
INSERT INTO log_marks (attempt_id, after_seq, sub, at, missing, closing, text)
SELECT c.attempt_id, c.after_seq, 1 + coalesce((
           SELECT max(m.sub) FROM log_marks m WHERE m.attempt_id = c.attempt_id AND m.after_seq = c.after_seq
       ), 0),
       $4, 0, true, c.text
FROM closed c WHERE c.text IS NOT NULL
