SELECT id, created_at, NULL::bigint, state = 'cancelling'
FROM jobs
WHERE slot_group = $1 AND admitted_at IS NOT NULL AND check_at IS NOT NULL
UNION ALL
SELECT id, created_at, ended_at, false
FROM jobs
WHERE slot_group = $1 AND admitted_at IS NOT NULL AND ended_at > $2 AND strays
ORDER BY 1
