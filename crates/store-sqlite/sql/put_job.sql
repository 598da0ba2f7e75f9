-- The one statement that writes the state of a job.
INSERT INTO jobs (
    id, version, state, owner, check_at, action, task, definition, input, priority, submitted_by,
    created_at, started_at, ended_at, expires_at, error_code, error_message, error_step, data,
    parent_job, parent_step, hook_of, slot_group, admitted_at, strays
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)
ON CONFLICT (id) DO UPDATE SET
    version = excluded.version,
    state = excluded.state,
    owner = excluded.owner,
    check_at = excluded.check_at,
    action = excluded.action,
    started_at = excluded.started_at,
    ended_at = excluded.ended_at,
    error_code = excluded.error_code,
    error_message = excluded.error_message,
    error_step = excluded.error_step,
    data = excluded.data,
    admitted_at = excluded.admitted_at,
    strays = excluded.strays
WHERE jobs.version = ?26
