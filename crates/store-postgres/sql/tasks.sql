SELECT name, source, pushed_at, pushed_by FROM tasks ORDER BY name
