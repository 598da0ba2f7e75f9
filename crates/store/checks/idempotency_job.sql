SELECT k.job_id AS job, NULL AS ix, NULL AS other, 'the key ' || k.key || ' names it, and it is not on record' AS what
FROM idempotency k WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = k.job_id)
