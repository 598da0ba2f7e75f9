SELECT slot_group, id FROM jobs
WHERE slot_group IS NOT NULL AND admitted_at IS NOT NULL AND ended_at > $1 AND strays
ORDER BY slot_group, id
