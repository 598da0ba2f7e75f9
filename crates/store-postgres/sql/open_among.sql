-- What is over has nothing to be looked at any more.
SELECT id FROM jobs WHERE id = ANY ($1::uuid[]) AND check_at IS NOT NULL
