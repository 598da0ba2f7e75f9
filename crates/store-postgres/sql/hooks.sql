SELECT id FROM jobs WHERE hook_of = $1 AND parent_job IS NULL
ORDER BY created_at, id LIMIT $2
