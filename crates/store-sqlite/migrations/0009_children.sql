-- Jobs that a step of another job began. Nobody else writes these two.
ALTER TABLE jobs ADD COLUMN parent_job BLOB;
ALTER TABLE jobs ADD COLUMN parent_step INTEGER;

CREATE INDEX jobs_of_parent ON jobs (parent_job, created_at) WHERE parent_job IS NOT NULL;
