-- One row for each that is asked for, in the order of asking, also for an attempt without a log.
SELECT coalesce(l.last_seq, 0), coalesce(l.complete, false), coalesce(l.closed, false),
       (SELECT coalesce(sum(m.missing), 0)::bigint FROM log_marks m
        WHERE m.attempt_id = r.id AND m.after_seq = coalesce(l.last_seq, 0)),
       l.end_seq
FROM unnest($1::uuid[]) WITH ORDINALITY AS r (id, place)
LEFT JOIN logs l ON l.attempt_id = r.id
ORDER BY r.place
