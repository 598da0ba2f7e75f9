DELETE FROM outbox WHERE id IN (SELECT o.id FROM outbox o
WHERE o.job_id < ?1 AND o.created_at < ?2 AND o.next_at IS NULL AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = o.job_id)
ORDER BY o.job_id, o.id LIMIT ?3)
