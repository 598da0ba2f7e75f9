SELECT id, version, task, kind, definition, paused_at, paused_by, planned_at, next_at, last_at, last_job, last_error, missed, notice, notice_at
FROM triggers
WHERE next_at <= $1
ORDER BY next_at, id
LIMIT $2
