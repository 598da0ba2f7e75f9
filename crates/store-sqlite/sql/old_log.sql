-- Always one row, also for an attempt that nobody knows.
SELECT (SELECT j.id FROM attempts a JOIN jobs j ON j.id = a.job_id WHERE a.id = ?1),
       (SELECT j.ended_at FROM attempts a JOIN jobs j ON j.id = a.job_id WHERE a.id = ?1),
       coalesce((SELECT complete FROM logs WHERE attempt_id = ?1), 0)
