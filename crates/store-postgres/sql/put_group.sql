-- What it returns are those that were not there.
WITH written AS (
    INSERT INTO slot_groups (name, last_admitted, admitted_at)
    SELECT name, last_admitted, $3 FROM unnest($1::text[], $2::uuid[]) AS r (name, last_admitted)
    ON CONFLICT (name) DO UPDATE SET last_admitted = excluded.last_admitted, admitted_at = excluded.admitted_at
    RETURNING name, xmax = 0 AS is_new
)
SELECT name FROM written WHERE is_new
