SELECT job_id AS job, ix, NULL AS other,
       'its columns say ' || state || ' and its data ' || coalesce(data ->> '$.state.name', 'nothing') || ', or they differ in its check time' AS what
FROM steps
WHERE data ->> '$.check.at' IS NOT check_at
   OR CASE data ->> '$.state.name'
      WHEN 'fanned_out' THEN iif(data -> '$.state.called_off' IS 'null', 'running', 'cancelling')
      WHEN 'child' THEN iif(data -> '$.state.called_off' IS 'null', 'running', 'cancelling')
      ELSE data ->> '$.state.name' END IS NOT state
