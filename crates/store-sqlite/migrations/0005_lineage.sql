-- Jobs that go on where another one ended. The old one's row never changes.
CREATE TABLE lineage (
    job_id    BLOB    NOT NULL PRIMARY KEY,
    continues BLOB    NOT NULL,
    resolves  INTEGER NOT NULL,
    how       TEXT    NOT NULL,
    by        TEXT    NOT NULL,
    at        INTEGER NOT NULL
) WITHOUT ROWID;

-- A job has one that stands in for it, at most.
CREATE UNIQUE INDEX lineage_resolved ON lineage (continues) WHERE resolves = 1;
