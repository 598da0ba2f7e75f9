-- The last notice that times of a trigger passed without a job.
ALTER TABLE triggers ADD COLUMN notice TEXT;
ALTER TABLE triggers ADD COLUMN notice_at INTEGER;
