SELECT NULL AS job, NULL AS ix, NULL AS other, 'the last mark is ' || (known.marked - known.clock) / 1000000 || ' s ahead of the clock' AS what
FROM known WHERE known.marked > known.clock + 60000000
