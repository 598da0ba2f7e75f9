SELECT check_at, id FROM jobs WHERE check_at <= $1 ORDER BY check_at, id LIMIT $2
