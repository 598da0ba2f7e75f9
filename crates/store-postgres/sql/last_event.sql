SELECT value FROM counters WHERE name = 'event'
