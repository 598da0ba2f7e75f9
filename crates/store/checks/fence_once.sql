SELECT a.job_id AS job, a.ix, a.id AS other, 'it has fence ' || a.fence || ', and another attempt as well' AS what
FROM attempts a JOIN (SELECT fence FROM attempts GROUP BY fence HAVING count(*) > 1) twice ON twice.fence = a.fence
