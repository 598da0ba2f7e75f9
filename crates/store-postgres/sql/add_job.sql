-- One of the two statements that write the state of a job: one that is new. What it returns is what was not there.
INSERT INTO jobs (
    id, version, state, owner, check_at, action, task, definition, input, priority, submitted_by,
    created_at, started_at, ended_at, expires_at, error_code, error_message, error_step, data,
    parent_job, parent_step, hook_of, slot_group, admitted_at, strays
)
SELECT * FROM unnest(
    $1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::bytea[], $9::text[],
    $10::integer[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::text[], $17::text[],
    $18::text[], $19::text[], $20::uuid[], $21::bigint[], $22::uuid[], $23::text[], $24::bigint[], $25::boolean[]
)
ON CONFLICT (id) DO NOTHING
RETURNING id
