-- What follows on a job's end: other jobs, and words to somebody outside, with how far their delivery got.
ALTER TABLE jobs ADD COLUMN hook_of BLOB;

CREATE INDEX jobs_of_hook ON jobs (hook_of, created_at) WHERE hook_of IS NOT NULL;

ALTER TABLE outbox ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
-- None once it is delivered or given up.
ALTER TABLE outbox ADD COLUMN next_at INTEGER;
ALTER TABLE outbox ADD COLUMN delivered_at INTEGER;
ALTER TABLE outbox ADD COLUMN error TEXT;

CREATE INDEX outbox_due ON outbox (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX outbox_of_job ON outbox (job_id);
CREATE INDEX outbox_dead ON outbox (created_at) WHERE next_at IS NULL AND delivered_at IS NULL;
