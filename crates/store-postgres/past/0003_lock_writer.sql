-- One store writes one batch at a time, whatever became of its connection: see `session.rs`.
SELECT pg_advisory_xact_lock($1)
