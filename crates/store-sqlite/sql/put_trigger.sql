INSERT INTO triggers (id, version, task, kind, definition, paused_at, paused_by, planned_at, next_at, last_at, last_job, last_error, missed, notice, notice_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
ON CONFLICT (id) DO UPDATE SET
    version = excluded.version,
    task = excluded.task,
    kind = excluded.kind,
    definition = excluded.definition,
    paused_at = excluded.paused_at,
    paused_by = excluded.paused_by,
    planned_at = excluded.planned_at,
    next_at = excluded.next_at,
    last_at = excluded.last_at,
    last_job = excluded.last_job,
    last_error = excluded.last_error,
    missed = excluded.missed,
    notice = excluded.notice,
    notice_at = excluded.notice_at
