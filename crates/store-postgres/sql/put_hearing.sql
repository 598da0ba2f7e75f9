-- What it returns says that there was none.
WITH written AS (
    INSERT INTO hearing (id, mark_at, deaf_us, stretch_from, unsettled_since, verdicts_from, alarmed)
    VALUES (1, $1, $2, $3, $4, $5, $6)
    ON CONFLICT (id) DO UPDATE SET
        mark_at = excluded.mark_at,
        deaf_us = excluded.deaf_us,
        stretch_from = excluded.stretch_from,
        unsettled_since = excluded.unsettled_since,
        verdicts_from = excluded.verdicts_from,
        alarmed = excluded.alarmed
    RETURNING id, xmax = 0 AS is_new
)
SELECT id FROM written WHERE is_new
