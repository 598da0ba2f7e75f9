SELECT a.job_id AS job, a.ix, a.id AS other, 'it is over, its log is open, and nothing closes it' AS what
FROM attempts a JOIN logs l ON l.attempt_id = a.id
WHERE a.ended_at IS NOT NULL AND NOT l.complete AND l.close_at IS NULL
