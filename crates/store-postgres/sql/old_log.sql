-- Always one row, also for an attempt that nobody knows: whether its job is on record, whether its log is whole, and the last
-- line of its last chunk.
SELECT EXISTS (SELECT 1 FROM attempts a JOIN jobs j ON j.id = a.job_id WHERE a.id = $1),
       coalesce((SELECT complete FROM logs WHERE attempt_id = $1), false),
       (SELECT last_seq FROM log_chunks WHERE attempt_id = $1 ORDER BY first_seq DESC LIMIT 1)
