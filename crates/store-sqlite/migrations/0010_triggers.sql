-- What starts jobs by itself, and where it stands.
CREATE TABLE triggers (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    task TEXT NOT NULL,
    kind TEXT NOT NULL,
    definition TEXT NOT NULL,
    paused_at INTEGER,
    paused_by TEXT,
    planned_at INTEGER,
    next_at INTEGER,
    last_at INTEGER,
    last_job BLOB,
    last_error TEXT,
    missed INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX triggers_due ON triggers (next_at) WHERE next_at IS NOT NULL;
