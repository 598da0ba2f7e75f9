-- Only what is over, and as it was when that was decided; it leaves a word of what is still to do.
WITH gone AS (
    DELETE FROM jobs USING unnest($1::uuid[], $2::bigint[]) AS r (id, version)
    WHERE jobs.id = r.id AND jobs.version = r.version AND jobs.check_at IS NULL
    RETURNING jobs.id
), said AS (
    INSERT INTO doomed (job_id, at) SELECT id, $3 FROM gone ON CONFLICT (job_id) DO NOTHING
)
SELECT id FROM gone
