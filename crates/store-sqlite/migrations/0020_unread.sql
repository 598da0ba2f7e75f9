-- A worker that could not read all that it has may have more than it said.
ALTER TABLE workers ADD COLUMN unread INTEGER NOT NULL DEFAULT 0;
