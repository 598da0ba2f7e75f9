-- Everything that may speak against a job's going, job by job in the order of their ids.
SELECT j.id, j.version, j.check_at IS NOT NULL, j.ended_at,
       (SELECT e.at FROM events e WHERE e.job_id = j.id ORDER BY e.id DESC LIMIT 1),
       EXISTS (SELECT 1 FROM attempts a WHERE a.job_id = j.id AND NOT a.confirmed),
       EXISTS (SELECT 1 FROM attempts a JOIN logs l ON l.attempt_id = a.id WHERE a.job_id = j.id AND NOT l.complete),
       EXISTS (SELECT 1 FROM outbox o WHERE o.job_id = j.id AND o.next_at IS NOT NULL),
       (SELECT l.continues FROM lineage l WHERE l.job_id = j.id AND EXISTS (SELECT 1 FROM jobs WHERE id = l.continues)),
       EXISTS (SELECT 1 FROM lineage l JOIN jobs k ON k.id = l.job_id
               WHERE l.root = coalesce((SELECT root FROM lineage WHERE job_id = j.id), j.id)
                 AND k.id <> j.id AND k.check_at IS NOT NULL)
FROM jobs j WHERE j.id > $1 AND j.id < $2 ORDER BY j.id LIMIT $3
