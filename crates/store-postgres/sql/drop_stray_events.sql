WITH few AS MATERIALIZED (
    SELECT q.id FROM quarantine q
    WHERE q.at < $1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = q.job_id)
    ORDER BY q.id LIMIT $2 FOR UPDATE OF q SKIP LOCKED
)
DELETE FROM quarantine USING few WHERE quarantine.id = few.id
