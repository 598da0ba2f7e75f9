SELECT j.id AS job, NULL AS ix, NULL AS other, 'nobody was ever admitted to its group ' || j.slot_group AS what
FROM jobs j
WHERE j.slot_group IS NOT NULL AND j.admitted_at IS NOT NULL AND j.check_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM slot_groups g WHERE g.name = j.slot_group)
UNION ALL
SELECT g.last_admitted, NULL, NULL, 'the group ' || g.name || ' says that it was admitted last, and it was not'
FROM slot_groups g
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = g.last_admitted AND j.slot_group = g.name AND j.admitted_at IS NOT NULL)
  AND g.last_admitted >= (SELECT deleted FROM known)
