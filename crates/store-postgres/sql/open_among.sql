-- What is over has nothing to be looked at any more. What cannot be understood is for whoever reads it to say.
SELECT id, definition_is_gone OR EXISTS (
    SELECT FROM steps s
    WHERE s.job_id = open.id AND s.check_at IS NOT NULL AND s.state = 'queued' AND s.attempt_id IS NULL
)
FROM (
    SELECT id, check_at, NOT EXISTS (SELECT FROM definitions d WHERE d.hash = j.definition) AS definition_is_gone
    FROM jobs j
    WHERE id = ANY ($1::uuid[])
) AS open
WHERE check_at IS NOT NULL OR definition_is_gone
