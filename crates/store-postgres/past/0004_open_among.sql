-- What is over has nothing to be looked at any more. What cannot be understood is for whoever reads it to say.
SELECT id FROM jobs j
WHERE id = ANY ($1::uuid[])
  AND (check_at IS NOT NULL OR NOT EXISTS (SELECT FROM definitions d WHERE d.hash = j.definition))
