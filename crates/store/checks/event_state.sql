-- The last line that moved it says where it went.
SELECT e.job_id AS job, e.ix, NULL AS other,
       'its history ends with ' || e."to" || ', and it is ' || CASE WHEN e.ix IS NULL THEN j.state ELSE s.state END AS what
FROM (SELECT max(id) AS id FROM events WHERE kind IN ('job', 'step') AND "to" IS NOT NULL GROUP BY job_id, ix) newest
JOIN events e ON e.id = newest.id
JOIN jobs j ON j.id = e.job_id
LEFT JOIN steps s ON s.job_id = e.job_id AND s.ix = e.ix
WHERE e."to" <> CASE WHEN e.ix IS NULL THEN j.state ELSE s.state END
