-- Locked: a job that is about to have one of them holds it, and this waits until that job can be seen.
SELECT hash FROM definitions WHERE hash > $1 ORDER BY hash LIMIT $2 FOR UPDATE
