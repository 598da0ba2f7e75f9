SELECT name, pushed_at FROM tasks ORDER BY name
