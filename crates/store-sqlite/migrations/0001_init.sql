-- The first schema. Ids are 16 bytes, times are microseconds since the Unix epoch, UTC.
-- No foreign keys: one writer writes all rows of a job together, and checks would cost more than they could find.

CREATE TABLE schema_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    checksum   BLOB    NOT NULL,
    applied_at INTEGER NOT NULL
);

CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The highest number ever given, by name: 'fence', 'event'. It outlives the rows that carry the numbers.
CREATE TABLE counters (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE definitions (
    hash     BLOB NOT NULL PRIMARY KEY,
    source   TEXT NOT NULL,
    settings TEXT NOT NULL
);

CREATE TABLE jobs (
    id            BLOB    NOT NULL PRIMARY KEY,
    version       INTEGER NOT NULL,
    state         TEXT    NOT NULL,
    owner         TEXT,
    check_at      INTEGER,
    action        TEXT,
    task          TEXT    NOT NULL,
    definition    BLOB    NOT NULL,
    input         TEXT    NOT NULL,
    priority      INTEGER NOT NULL,
    submitted_by  TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,
    ended_at      INTEGER,
    expires_at    INTEGER,
    error_code    TEXT,
    error_message TEXT,
    error_step    TEXT,
    data          TEXT    NOT NULL
) WITHOUT ROWID;

CREATE INDEX jobs_due ON jobs (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX jobs_by_state ON jobs (state, id);
CREATE INDEX jobs_by_task ON jobs (task, id);

CREATE TABLE steps (
    job_id            BLOB    NOT NULL,
    ix                INTEGER NOT NULL,
    name              TEXT    NOT NULL,
    state             TEXT    NOT NULL,
    owner             TEXT,
    check_at          INTEGER,
    action            TEXT,
    worker_id         BLOB,
    attempt_id        BLOB,
    fence             INTEGER,
    dispatch_attempts INTEGER NOT NULL,
    error_code        TEXT,
    error_message     TEXT,
    queued_at         INTEGER,
    disconnected_at   INTEGER,
    recovery_deadline INTEGER,
    updated_at        INTEGER NOT NULL,
    data              TEXT    NOT NULL,
    PRIMARY KEY (job_id, ix)
) WITHOUT ROWID;

-- Every open step has a check time, so this one index also finds what is queued.
CREATE INDEX steps_due ON steps (check_at, state, attempt_id) WHERE check_at IS NOT NULL;
-- Every step that a worker holds, by offer or by attempt: few at a time, whatever the table holds.
CREATE INDEX steps_held ON steps (attempt_id, worker_id) WHERE attempt_id IS NOT NULL;

CREATE TABLE attempts (
    id               BLOB    NOT NULL PRIMARY KEY,
    job_id           BLOB    NOT NULL,
    ix               INTEGER NOT NULL,
    number           INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    worker_id        BLOB    NOT NULL,
    epoch            INTEGER NOT NULL,
    state            TEXT    NOT NULL,
    confirmed        INTEGER NOT NULL,
    started_at       INTEGER NOT NULL,
    ended_at         INTEGER,
    exit_code        INTEGER,
    signal           INTEGER,
    error_code       TEXT,
    error_message    TEXT,
    cpu_ms           INTEGER NOT NULL,
    memory_bytes_max INTEGER NOT NULL,
    late_outcome     TEXT,
    late_at          INTEGER
) WITHOUT ROWID;

CREATE INDEX attempts_by_step ON attempts (job_id, ix, number);

-- Numbers come from counters, so that they never return even when the newest events are pruned.
CREATE TABLE events (
    id        INTEGER PRIMARY KEY,
    job_id    BLOB    NOT NULL,
    ix        INTEGER,
    at        INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    verb      TEXT,
    "from"    TEXT,
    "to"      TEXT,
    worker_id BLOB,
    reason    TEXT    NOT NULL
);

CREATE INDEX events_by_job ON events (job_id);

CREATE TABLE outbox (
    id         BLOB    NOT NULL PRIMARY KEY,
    job_id     BLOB    NOT NULL,
    kind       TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE idempotency (
    token_id     BLOB    NOT NULL,
    key          TEXT    NOT NULL,
    request_hash BLOB    NOT NULL,
    job_id       BLOB    NOT NULL,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (token_id, key)
) WITHOUT ROWID;

CREATE TABLE quarantine (
    id     INTEGER PRIMARY KEY,
    job_id BLOB,
    at     INTEGER NOT NULL,
    event  TEXT    NOT NULL,
    error  TEXT    NOT NULL
);

CREATE TABLE logs (
    attempt_id BLOB    NOT NULL PRIMARY KEY,
    last_seq   INTEGER NOT NULL,
    complete   INTEGER NOT NULL
) WITHOUT ROWID;

-- With a rowid: chunks are large, and would make a tree of keys deep and slow.
CREATE TABLE log_chunks (
    attempt_id BLOB    NOT NULL,
    first_seq  INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    blocks     BLOB    NOT NULL,
    PRIMARY KEY (attempt_id, first_seq)
);

CREATE TABLE workers (
    id              BLOB    NOT NULL PRIMARY KEY,
    name            TEXT    NOT NULL,
    credential_hash BLOB    NOT NULL UNIQUE,
    epoch           INTEGER NOT NULL DEFAULT 0,
    draining        INTEGER NOT NULL DEFAULT 0,
    kind            TEXT    NOT NULL DEFAULT 'static',
    tags            TEXT    NOT NULL DEFAULT '[]',
    slots           INTEGER NOT NULL DEFAULT 0,
    session_id      BLOB,
    boot_id         TEXT    NOT NULL DEFAULT '',
    state_id        BLOB    NOT NULL,
    machine         TEXT    NOT NULL DEFAULT '',
    version         TEXT    NOT NULL DEFAULT '',
    platform        TEXT    NOT NULL DEFAULT '',
    hostname        TEXT    NOT NULL DEFAULT '',
    pid             INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    started_at      INTEGER,
    last_seen_at    INTEGER,
    removed_at      INTEGER
) WITHOUT ROWID;

CREATE TABLE tokens (
    id         BLOB    NOT NULL PRIMARY KEY,
    kind       TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    hash       BLOB    NOT NULL UNIQUE,
    tags       TEXT    NOT NULL,
    uses_left  INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;

CREATE TABLE tasks (
    name      TEXT    NOT NULL PRIMARY KEY,
    source    TEXT    NOT NULL,
    pushed_at INTEGER NOT NULL,
    pushed_by TEXT    NOT NULL
);

-- One row per attempt, sender and role: the newest sign of life, and how regular they were.
CREATE TABLE beats (
    attempt_id  BLOB    NOT NULL,
    sender_id   BLOB    NOT NULL,
    role        TEXT    NOT NULL,
    hostname    TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    longest_gap INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, sender_id, role)
) WITHOUT ROWID;

-- For operators: stable names, ids as text, times as RFC 3339 in UTC (`datetime(updated_at)` compares with `datetime('now')`).

CREATE VIEW dispatch_queue AS
WITH entry AS (
    SELECT s.*, j.created_at,
           -- Only what has not started can still expire.
           CASE WHEN j.started_at IS NULL AND j.ended_at IS NULL THEN j.expires_at END AS expires_at,
           coalesce(s.attempt_id, last.id) AS run_id,
           coalesce(s.worker_id, last.worker_id) AS agent_id
    FROM steps s
    JOIN jobs j ON j.id = s.job_id
    LEFT JOIN attempts last ON last.id = (
        SELECT a.id FROM attempts a WHERE a.job_id = s.job_id AND a.ix = s.ix ORDER BY a.number DESC LIMIT 1
    )
)
SELECT
    lower(printf('%s-%s-%s-%s-%s', substr(hex(job_id), 1, 8), substr(hex(job_id), 9, 4), substr(hex(job_id), 13, 4),
                 substr(hex(job_id), 17, 4), substr(hex(job_id), 21))) || '/' || ix AS id,
    lower(CASE WHEN run_id IS NOT NULL THEN
          printf('%s-%s-%s-%s-%s', substr(hex(run_id), 1, 8), substr(hex(run_id), 9, 4), substr(hex(run_id), 13, 4),
                 substr(hex(run_id), 17, 4), substr(hex(run_id), 21)) END) AS run_id,
    lower(printf('%s-%s-%s-%s-%s', substr(hex(job_id), 1, 8), substr(hex(job_id), 9, 4), substr(hex(job_id), 13, 4),
                 substr(hex(job_id), 17, 4), substr(hex(job_id), 21))) AS job_id,
    name AS step,
    state AS status,
    lower(CASE WHEN agent_id IS NOT NULL THEN
          printf('%s-%s-%s-%s-%s', substr(hex(agent_id), 1, 8), substr(hex(agent_id), 9, 4), substr(hex(agent_id), 13, 4),
                 substr(hex(agent_id), 17, 4), substr(hex(agent_id), 21)) END) AS agent_id,
    dispatch_attempts,
    error_message,
    strftime('%Y-%m-%dT%H:%M:%S', disconnected_at / 1000000, 'unixepoch') || printf('.%06dZ', disconnected_at % 1000000) AS disconnected_at,
    strftime('%Y-%m-%dT%H:%M:%S', recovery_deadline / 1000000, 'unixepoch') || printf('.%06dZ', recovery_deadline % 1000000) AS recovery_deadline,
    strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000, 'unixepoch') || printf('.%06dZ', created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', updated_at / 1000000, 'unixepoch') || printf('.%06dZ', updated_at % 1000000) AS updated_at,
    strftime('%Y-%m-%dT%H:%M:%S', expires_at / 1000000, 'unixepoch') || printf('.%06dZ', expires_at % 1000000) AS expires_at
FROM entry;

CREATE VIEW heartbeats AS
WITH beat AS (
    SELECT role, last_at, hostname, pid,
           lower(printf('%s-%s-%s-%s-%s', substr(hex(attempt_id), 1, 8), substr(hex(attempt_id), 9, 4),
                        substr(hex(attempt_id), 13, 4), substr(hex(attempt_id), 17, 4), substr(hex(attempt_id), 21))) AS task_id,
           lower(printf('%s-%s-%s-%s-%s', substr(hex(sender_id), 1, 8), substr(hex(sender_id), 9, 4),
                        substr(hex(sender_id), 13, 4), substr(hex(sender_id), 17, 4), substr(hex(sender_id), 21))) AS sender_id
    FROM beats
)
SELECT
    task_id || '/' || sender_id || '/' || role AS id,
    task_id,
    sender_id,
    role,
    strftime('%Y-%m-%dT%H:%M:%S', last_at / 1000000, 'unixepoch') || printf('.%06dZ', last_at % 1000000) AS sent_at,
    hostname,
    pid
FROM beat;
