-- One store writes one batch at a time, whatever became of its connection: see `session.rs`. It writes none once a newer build has said
-- that builds like it must not: see `migrate.rs`.
SELECT pg_advisory_xact_lock($1), (SELECT value FROM meta WHERE key = 'min_reader')
