SELECT id FROM jobs WHERE parent_job = $1
ORDER BY created_at, id LIMIT $2
