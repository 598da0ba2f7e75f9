SELECT t.last_job AS job, NULL AS ix, NULL AS other, 'trigger ' || t.id || ' made it, and it is not on record' AS what
FROM triggers t
WHERE t.last_job IS NOT NULL AND t.last_job >= (SELECT deleted FROM known)
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = t.last_job)
