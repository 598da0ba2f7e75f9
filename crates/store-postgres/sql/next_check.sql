-- LEAST leaves out what is none.
SELECT LEAST(
    (SELECT check_at FROM jobs WHERE check_at IS NOT NULL ORDER BY check_at LIMIT 1),
    (SELECT check_at FROM steps WHERE check_at IS NOT NULL ORDER BY check_at LIMIT 1),
    (SELECT close_at FROM logs WHERE close_at IS NOT NULL ORDER BY close_at LIMIT 1),
    (SELECT next_at FROM triggers WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 1)
)
