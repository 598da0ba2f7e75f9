SELECT slot_group, id FROM jobs INDEXED BY jobs_astray
WHERE slot_group IS NOT NULL AND admitted_at IS NOT NULL AND ended_at > ?1 AND strays = 1
ORDER BY slot_group, id
