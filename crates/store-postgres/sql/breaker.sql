SELECT tripped_at, lost, connected, ended_at FROM breaker WHERE id = 1
