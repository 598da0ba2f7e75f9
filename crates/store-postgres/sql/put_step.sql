-- The one statement that writes the state of a step.
INSERT INTO steps (
    job_id, ix, name, state, owner, check_at, action, worker_id, attempt_id, fence, dispatch_attempts,
    error_code, error_message, queued_at, disconnected_at, recovery_deadline, updated_at, data, artifacts
)
SELECT * FROM unnest(
    $1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::uuid[], $9::uuid[],
    $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[],
    $18::text[], $19::text[]
)
ON CONFLICT (job_id, ix) DO UPDATE SET
    state = excluded.state,
    owner = excluded.owner,
    check_at = excluded.check_at,
    action = excluded.action,
    worker_id = excluded.worker_id,
    attempt_id = excluded.attempt_id,
    fence = excluded.fence,
    dispatch_attempts = excluded.dispatch_attempts,
    error_code = excluded.error_code,
    error_message = excluded.error_message,
    queued_at = excluded.queued_at,
    disconnected_at = excluded.disconnected_at,
    recovery_deadline = excluded.recovery_deadline,
    updated_at = excluded.updated_at,
    data = excluded.data,
    artifacts = excluded.artifacts
