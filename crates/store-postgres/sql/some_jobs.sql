-- As `job` has it, for many.
SELECT j.version, j.state, j.input, j.submitted_by, j.created_at, j.check_at, j.data,
       j.definition, d.source, d.settings, j.parent_job, j.parent_step, j.hook_of, j.slot_group, j.id
FROM jobs j LEFT JOIN definitions d ON d.hash = j.definition
WHERE j.id = ANY ($1::uuid[])
