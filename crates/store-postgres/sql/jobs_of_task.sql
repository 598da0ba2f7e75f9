SELECT id, task, state, created_at, started_at, ended_at, error_code, error_message, error_step, submitted_by,
       parent_job, parent_step, hook_of, slot_group,
       slot_group IS NOT NULL AND admitted_at IS NULL AND check_at IS NOT NULL
FROM jobs WHERE id < $1 AND task = $3
ORDER BY id DESC LIMIT $2
