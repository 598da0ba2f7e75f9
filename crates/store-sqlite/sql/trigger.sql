SELECT id, version, task, kind, definition, paused_at, paused_by, planned_at, next_at, last_at, last_job, last_error, missed
FROM triggers
WHERE id = ?1
