-- After all that stand at the same place. What stands there already is a repeat.
INSERT INTO log_marks (attempt_id, after_seq, sub, at, missing, closing, text)
SELECT ?1, ?2, 1 + coalesce(max(sub), 0), ?3, ?4, ?5, ?6 FROM log_marks WHERE attempt_id = ?1 AND after_seq = ?2
HAVING count(*) FILTER (WHERE (at, missing, closing, text) = (?3, ?4, ?5, ?6)) = 0
