-- The one statement that writes the state of an attempt. What names it never changes.
INSERT INTO attempts (
    id, job_id, ix, number, fence, worker_id, epoch, state, confirmed, started_at, ended_at,
    exit_code, signal, error_code, error_message, cpu_ms, memory_bytes_max, cleanup, duration_ms
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
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
    cleanup = excluded.cleanup,
    duration_ms = excluded.duration_ms
