-- After all that stand at the same place, in the order of the arrays.
INSERT INTO log_marks (attempt_id, after_seq, sub, at, missing, closing, text)
SELECT r.attempt_id, r.after_seq,
       row_number() OVER (PARTITION BY r.attempt_id, r.after_seq ORDER BY r.place) + coalesce((
           SELECT max(m.sub) FROM log_marks m WHERE m.attempt_id = r.attempt_id AND m.after_seq = r.after_seq
       ), 0),
       r.at, r.missing, false, r.text
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])
    WITH ORDINALITY AS r (attempt_id, after_seq, at, missing, text, place)
