-- The counter's row stays locked until this transaction is over, and others that want numbers wait for that. So a number can only
-- be given once all lower ones are visible, or were taken back: whoever reads in their order misses nothing. It is the last
-- statement of its transaction, together with COMMIT, so that nobody waits for longer than the disk takes.
WITH last AS (
    UPDATE counters SET value = value + cardinality($1::uuid[]) WHERE name = 'event' RETURNING value
), added AS (
    INSERT INTO events (id, job_id, ix, at, kind, verb, "from", "to", worker_id, reason)
    SELECT last.value - cardinality($1::uuid[]) + r.place,
           r.job_id, r.ix, r.at, r.kind, r.verb, r.from_word, r.to_word, r.worker_id, r.reason
    FROM last, unnest(
        $1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::uuid[], $9::text[]
    ) WITH ORDINALITY AS r (job_id, ix, at, kind, verb, from_word, to_word, worker_id, reason, place)
)
SELECT value FROM last
