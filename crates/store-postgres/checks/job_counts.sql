SELECT j.id AS job, NULL AS ix, NULL AS other,
       'it counts ' || coalesce(j.data::json ->> 'counts', 'nothing') || ', and its steps are ' || s.counts AS what
FROM (
    SELECT job_id,
           '[' || count(*) FILTER (WHERE state = 'pending') || ',' || count(*) FILTER (WHERE state = 'queued') || ','
           || count(*) FILTER (WHERE state = 'running') || ',' || count(*) FILTER (WHERE state = 'recovering') || ','
           || count(*) FILTER (WHERE state = 'cancelling') || ',' || count(*) FILTER (WHERE state = 'held') || ','
           || count(*) FILTER (WHERE state = 'waiting') || ',' || count(*) FILTER (WHERE state = 'success') || ','
           || count(*) FILTER (WHERE state = 'failed') || ',' || count(*) FILTER (WHERE state = 'cancelled') || ','
           || count(*) FILTER (WHERE state = 'skipped') || ']' AS counts
    FROM steps GROUP BY job_id
) s JOIN jobs j ON j.id = s.job_id
WHERE j.data::json ->> 'counts' IS DISTINCT FROM s.counts
