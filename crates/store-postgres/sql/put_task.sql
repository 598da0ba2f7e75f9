INSERT INTO tasks (name, source, pushed_at, pushed_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET
    source = excluded.source, pushed_at = excluded.pushed_at, pushed_by = excluded.pushed_by
