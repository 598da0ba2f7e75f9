-- From one name to the next, whatever the number of jobs.
WITH RECURSIVE names (name, place) AS (
    SELECT $1::text COLLATE "C", 0::bigint
    UNION ALL
    SELECT (
        SELECT slot_group FROM jobs
        WHERE slot_group > names.name AND admitted_at IS NULL AND check_at IS NOT NULL
        ORDER BY slot_group LIMIT 1
    ), place + 1
    FROM names WHERE name IS NOT NULL AND place < $2
)
SELECT name FROM names WHERE place > 0 AND name IS NOT NULL ORDER BY place
