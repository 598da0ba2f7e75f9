SELECT name, sealed, set_at, set_by FROM secrets WHERE name = $1
