-- How long an attempt ran, as its runner measured it. Of those before this nobody kept it.
ALTER TABLE attempts ADD COLUMN duration_ms INTEGER;
