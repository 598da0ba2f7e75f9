-- What it returns are those that were not there.
WITH written AS (
    INSERT INTO leases (name, holder, epoch, until_heard)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::bigint[])
    ON CONFLICT (name) DO UPDATE SET
        holder = excluded.holder,
        epoch = excluded.epoch,
        until_heard = excluded.until_heard
    RETURNING name, xmax = 0 AS is_new
)
SELECT name FROM written WHERE is_new
