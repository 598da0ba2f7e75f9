-- Servers find each other by these rows, and a worker's link belongs to one of them.

CREATE TABLE servers (
    -- Random, anew with every start.
    id         BLOB    NOT NULL PRIMARY KEY,
    -- Counts the starts of this installation's servers.
    generation INTEGER NOT NULL,
    address    TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    -- Its last mark, and the same in hearing time.
    beat_at    INTEGER NOT NULL,
    beat_heard INTEGER NOT NULL,
    -- It said that it goes.
    left_at    INTEGER
) WITHOUT ROWID;

-- The server that has the worker's link, or had its last one.
ALTER TABLE workers ADD COLUMN server_id BLOB;
-- The worker itself wants no new work.
ALTER TABLE workers ADD COLUMN unwilling INTEGER NOT NULL DEFAULT 0;
