SELECT name, sealed, set_at, set_by FROM secrets ORDER BY name
