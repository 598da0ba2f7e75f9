-- One of the two statements that write the state of a job: one that is there, as it was when that was decided.
UPDATE jobs SET
    version = r.version,
    state = r.state,
    owner = r.owner,
    check_at = r.check_at,
    action = r.action,
    started_at = r.started_at,
    ended_at = r.ended_at,
    error_code = r.error_code,
    error_message = r.error_message,
    error_step = r.error_step,
    data = r.data,
    admitted_at = r.admitted_at,
    strays = r.strays
FROM unnest(
    $1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::text[], $11::text[], $12::text[], $13::bigint[], $14::boolean[], $15::bigint[]
) AS r (
    id, version, state, owner, check_at, action, started_at, ended_at, error_code, error_message, error_step, data,
    admitted_at, strays, expected
)
WHERE jobs.id = r.id AND jobs.version = r.expected
RETURNING jobs.id
