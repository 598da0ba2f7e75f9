-- What it returns are those that were not there.
WITH written AS (
    INSERT INTO logs (attempt_id, last_seq, complete, closed)
    SELECT attempt_id, last_seq, complete, false
    FROM unnest($1::uuid[], $2::bigint[], $3::boolean[]) AS r (attempt_id, last_seq, complete)
    ON CONFLICT (attempt_id) DO UPDATE SET
        last_seq = excluded.last_seq,
        complete = excluded.complete,
        closed = false,
        close_at = CASE WHEN excluded.complete THEN NULL ELSE logs.close_at END
    RETURNING attempt_id, xmax = 0 AS is_new
)
SELECT attempt_id FROM written WHERE is_new
