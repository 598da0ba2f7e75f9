SELECT min(check_at) FROM jobs WHERE check_at IS NOT NULL
