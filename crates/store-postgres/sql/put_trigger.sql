-- What it returns are those that were not there.
WITH written AS (
    INSERT INTO triggers (
        id, version, task, kind, definition, paused_at, paused_by, planned_at, next_at, last_at, last_job, last_error,
        missed, notice, notice_at
    )
    SELECT * FROM unnest(
        $1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[],
        $10::bigint[], $11::uuid[], $12::text[], $13::bigint[], $14::text[], $15::bigint[]
    )
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
    RETURNING id, xmax = 0 AS is_new
)
SELECT id FROM written WHERE is_new
