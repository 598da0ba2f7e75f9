-- The highest epoch that a worker has said something on: a state folder that knows only older ones is an old copy.
ALTER TABLE workers ADD COLUMN used_epoch INTEGER NOT NULL DEFAULT 0;
