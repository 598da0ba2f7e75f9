-- What somebody holds may be about to be tried again; it is looked at the next time.
WITH few AS MATERIALIZED (
    SELECT o.id FROM outbox o
    WHERE o.job_id < $1 AND o.created_at < $2 AND o.next_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = o.job_id)
    ORDER BY o.job_id, o.id LIMIT $3 FOR UPDATE OF o SKIP LOCKED
)
DELETE FROM outbox USING few WHERE outbox.id = few.id
