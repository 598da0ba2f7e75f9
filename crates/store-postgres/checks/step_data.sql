SELECT job_id AS job, ix, NULL AS other,
       'its columns say ' || state || ' and its data ' || coalesce(inner_state ->> 'name', 'nothing') || ', or they differ in its check time' AS what
FROM (
    SELECT job_id, ix, state, check_at, data::json -> 'state' AS inner_state, (data::json #>> '{check,at}')::bigint AS inner_check FROM steps
) s
WHERE inner_check IS DISTINCT FROM check_at
   OR CASE WHEN inner_state ->> 'name' IN ('fanned_out', 'child')
           THEN CASE WHEN inner_state ->> 'called_off' IS NULL THEN 'running' ELSE 'cancelling' END
           ELSE inner_state ->> 'name' END IS DISTINCT FROM state
