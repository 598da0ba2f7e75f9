-- A worker that could not read all that it has may have more than it said. A build that does not know this waits for nobody longer than before.
ALTER TABLE workers ADD COLUMN unread boolean NOT NULL DEFAULT false;
