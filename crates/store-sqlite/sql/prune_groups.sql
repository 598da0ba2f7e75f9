DELETE FROM slot_groups WHERE name IN (
    SELECT g.name FROM slot_groups g INDEXED BY slot_groups_by_age
    WHERE g.admitted_at < ?1
    AND NOT EXISTS (
        SELECT 1 FROM jobs j INDEXED BY jobs_with_slots
        WHERE j.slot_group = g.name AND j.admitted_at IS NOT NULL AND j.check_at IS NOT NULL
    )
    AND NOT EXISTS (
        SELECT 1 FROM jobs j INDEXED BY jobs_in_line
        WHERE j.slot_group = g.name AND j.admitted_at IS NULL AND j.check_at IS NOT NULL
    )
    ORDER BY g.admitted_at, g.name
    LIMIT ?2
)
