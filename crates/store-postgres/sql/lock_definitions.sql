-- A definition that a job is about to have must not be pruned meanwhile: whoever deletes it waits, or was first and is seen here.
SELECT hash FROM definitions WHERE hash = ANY ($1::bytea[]) ORDER BY hash FOR KEY SHARE
