-- The one statement that writes the state of an attempt. What names it never changes.
INSERT INTO attempts (
    id, job_id, ix, number, fence, worker_id, epoch, state, confirmed, started_at, ended_at,
    exit_code, signal, error_code, error_message, cpu_ms, memory_bytes_max, cleanup
)
SELECT * FROM unnest(
    $1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::uuid[], $7::bigint[], $8::text[], $9::boolean[],
    $10::bigint[], $11::bigint[], $12::integer[], $13::integer[], $14::text[], $15::text[], $16::bigint[], $17::bigint[],
    $18::text[]
)
ON CONFLICT (id) DO UPDATE SET
    epoch = excluded.epoch,
    state = excluded.state,
    confirmed = excluded.confirmed,
    ended_at = excluded.ended_at,
    exit_code = excluded.exit_code,
    signal = excluded.signal,
    error_code = excluded.error_code,
    error_message = excluded.error_message,
    cpu_ms = excluded.cpu_ms,
    memory_bytes_max = excluded.memory_bytes_max,
    cleanup = excluded.cleanup
