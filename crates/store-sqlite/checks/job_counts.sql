SELECT j.id AS job, NULL AS ix, NULL AS other,
       'it counts ' || coalesce(j.data -> '$.counts', 'nothing') || ', and its steps are ' || s.counts AS what
FROM (
    SELECT job_id,
           '[' || sum(state = 'pending') || ',' || sum(state = 'queued') || ',' || sum(state = 'running') || ','
           || sum(state = 'recovering') || ',' || sum(state = 'cancelling') || ',' || sum(state = 'held') || ','
           || sum(state = 'waiting') || ',' || sum(state = 'success') || ',' || sum(state = 'failed') || ','
           || sum(state = 'cancelled') || ',' || sum(state = 'skipped') || ']' AS counts
    FROM steps GROUP BY job_id
) s JOIN jobs j ON j.id = s.job_id
WHERE j.data -> '$.counts' IS NOT s.counts
