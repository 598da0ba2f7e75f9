DELETE FROM secrets WHERE name = $1
