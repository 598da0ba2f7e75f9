SELECT id AS job, NULL AS ix, NULL AS other,
       'its columns say ' || state || ' and its data ' || coalesce(data ->> '$.state', 'nothing') || ', or they differ in a time' AS what
FROM jobs
WHERE data ->> '$.state' IS NOT state OR data ->> '$.started_at' IS NOT started_at OR data ->> '$.ended_at' IS NOT ended_at
   OR data ->> '$.admitted_at' IS NOT admitted_at OR data ->> '$.check.at' IS NOT check_at
