SELECT id, created_at, NULL, state = 'cancelling'
FROM jobs INDEXED BY jobs_with_slots
WHERE slot_group = ?1 AND admitted_at IS NOT NULL AND check_at IS NOT NULL
UNION ALL
SELECT id, created_at, ended_at, 0
FROM jobs INDEXED BY jobs_astray
WHERE slot_group = ?1 AND admitted_at IS NOT NULL AND ended_at > ?2 AND strays = 1
ORDER BY 1
