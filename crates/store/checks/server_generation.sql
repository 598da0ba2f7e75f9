SELECT NULL AS job, NULL AS ix, s.id AS other, 'the server at ' || s.address || ' has generation ' || s.generation AS what
FROM servers s
WHERE s.generation > coalesce((SELECT value FROM counters WHERE name = 'server'), 0)
   OR EXISTS (SELECT 1 FROM servers o WHERE o.generation = s.generation AND o.id <> s.id)
