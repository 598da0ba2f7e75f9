-- Only one that is over, and as it was when that was decided.
DELETE FROM jobs WHERE id = ?1 AND version = ?2 AND check_at IS NULL
