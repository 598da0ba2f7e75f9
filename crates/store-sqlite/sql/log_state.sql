-- Always one row, also for an attempt without a log.
SELECT coalesce(max(last_seq), 0), coalesce(max(complete), 0), coalesce(max(closed), 0),
       (SELECT coalesce(sum(missing), 0) FROM log_marks
        WHERE attempt_id = ?1 AND after_seq = coalesce((SELECT last_seq FROM logs WHERE attempt_id = ?1), 0)),
       max(end_seq)
FROM logs WHERE attempt_id = ?1
