SELECT job_id AS job, ix, id AS other, 'its state is ' || state AS what
FROM attempts WHERE state NOT IN ('running', 'recovering', 'ended', 'lost', 'superseded')
