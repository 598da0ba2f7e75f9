SELECT slot_group FROM jobs INDEXED BY jobs_in_line
WHERE slot_group > ?1 AND admitted_at IS NULL AND check_at IS NOT NULL
ORDER BY slot_group LIMIT 1
