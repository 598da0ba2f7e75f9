SELECT min(check_at) FROM steps WHERE check_at IS NOT NULL
