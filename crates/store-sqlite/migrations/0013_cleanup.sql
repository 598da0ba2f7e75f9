-- How the cleanup of an attempt ended, where it had its turn.
ALTER TABLE attempts ADD COLUMN cleanup TEXT;
