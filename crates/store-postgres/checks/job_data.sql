SELECT id AS job, NULL AS ix, NULL AS other,
       'its columns say ' || state || ' and its data ' || coalesce(parsed ->> 'state', 'nothing') || ', or they differ in a time' AS what
FROM (SELECT id, state, started_at, ended_at, admitted_at, check_at, data::json AS parsed FROM jobs) j
WHERE parsed ->> 'state' IS DISTINCT FROM state OR (parsed ->> 'started_at')::bigint IS DISTINCT FROM started_at
   OR (parsed ->> 'ended_at')::bigint IS DISTINCT FROM ended_at OR (parsed ->> 'admitted_at')::bigint IS DISTINCT FROM admitted_at
   OR (parsed #>> '{check,at}')::bigint IS DISTINCT FROM check_at
