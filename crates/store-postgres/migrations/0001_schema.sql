-- The first schema. Times are microseconds since the Unix epoch, UTC; words and names sort by their bytes, as Rust sorts them.
-- No foreign keys: one transaction writes all rows of a job together, and checks would cost more than they could find.

CREATE TABLE schema_migrations (
    version    bigint PRIMARY KEY,
    name       text   NOT NULL,
    checksum   bytea  NOT NULL,
    applied_at bigint NOT NULL
);

CREATE TABLE meta (
    key   text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- The highest number ever given, by name: 'fence', 'event', 'server'. It outlives the rows that carry the numbers.
CREATE TABLE counters (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
) WITH (fillfactor = 10);

INSERT INTO counters (name, value) VALUES ('event', 0), ('fence', 0), ('server', 0);

CREATE TABLE definitions (
    hash     bytea PRIMARY KEY,
    source   text  NOT NULL,
    settings text  NOT NULL
);

CREATE TABLE jobs (
    id            uuid    PRIMARY KEY,
    version       bigint  NOT NULL,
    state         text    COLLATE "C" NOT NULL,
    owner         text,
    check_at      bigint,
    action        text,
    task          text    COLLATE "C" NOT NULL,
    definition    bytea   NOT NULL,
    input         text    NOT NULL,
    priority      integer NOT NULL,
    submitted_by  text    NOT NULL,
    created_at    bigint  NOT NULL,
    started_at    bigint,
    ended_at      bigint,
    expires_at    bigint,
    error_code    text,
    error_message text,
    error_step    text,
    data          text    NOT NULL,
    -- The step of another job that began it, and the job on whose end it follows. Nobody else writes these.
    parent_job    uuid,
    parent_step   bigint,
    hook_of       uuid,
    -- Its concurrency group, and when that had room for it; none while it waits.
    slot_group    text    COLLATE "C",
    admitted_at   bigint,
    -- Something of it was given up and may still run.
    strays        boolean NOT NULL
);

CREATE INDEX jobs_due ON jobs (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX jobs_by_state ON jobs (state, id);
CREATE INDEX jobs_by_task ON jobs (task, id);
CREATE INDEX jobs_of_parent ON jobs (parent_job, created_at) WHERE parent_job IS NOT NULL;
CREATE INDEX jobs_of_hook ON jobs (hook_of, created_at) WHERE hook_of IS NOT NULL;
-- A definition that no job has may go.
CREATE INDEX jobs_of_definition ON jobs (definition);
CREATE INDEX jobs_in_line ON jobs (slot_group, priority DESC, created_at, id)
    WHERE slot_group IS NOT NULL AND admitted_at IS NULL AND check_at IS NOT NULL;
CREATE INDEX jobs_with_slots ON jobs (slot_group, id)
    WHERE slot_group IS NOT NULL AND admitted_at IS NOT NULL AND check_at IS NOT NULL;
CREATE INDEX jobs_astray ON jobs (slot_group, ended_at)
    WHERE slot_group IS NOT NULL AND admitted_at IS NOT NULL AND ended_at IS NOT NULL AND strays;

CREATE TABLE steps (
    job_id            uuid   NOT NULL,
    ix                bigint NOT NULL,
    name              text   NOT NULL,
    state             text   COLLATE "C" NOT NULL,
    owner             text,
    check_at          bigint,
    action            text,
    worker_id         uuid,
    attempt_id        uuid,
    fence             bigint,
    dispatch_attempts bigint NOT NULL,
    error_code        text,
    error_message     text,
    queued_at         bigint,
    disconnected_at   bigint,
    -- In hearing time, which stands still while nobody can be heard; the view adds what was deaf.
    recovery_deadline bigint,
    updated_at        bigint NOT NULL,
    data              text   NOT NULL,
    -- The set of files that it left, by its hash.
    artifacts         text   COLLATE "C",
    PRIMARY KEY (job_id, ix)
);

CREATE INDEX steps_due ON steps (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX steps_queued ON steps (job_id, ix) WHERE check_at IS NOT NULL AND state = 'queued' AND attempt_id IS NULL;
-- Every step that a worker holds, by offer or by attempt: few at a time, whatever the table holds.
CREATE INDEX steps_held ON steps (attempt_id, worker_id) WHERE attempt_id IS NOT NULL;
CREATE INDEX steps_artifacts ON steps (artifacts) WHERE artifacts IS NOT NULL;

CREATE TABLE attempts (
    id               uuid    PRIMARY KEY,
    job_id           uuid    NOT NULL,
    ix               bigint  NOT NULL,
    number           bigint  NOT NULL,
    fence            bigint  NOT NULL,
    worker_id        uuid    NOT NULL,
    epoch            bigint  NOT NULL,
    state            text    COLLATE "C" NOT NULL,
    confirmed        boolean NOT NULL,
    -- Its worker said that its process runs: what the same worker says later, from a disk that was put back, does not count then.
    begun            boolean NOT NULL DEFAULT false,
    started_at       bigint  NOT NULL,
    ended_at         bigint,
    exit_code        integer,
    signal           integer,
    error_code       text,
    error_message    text,
    cpu_ms           bigint  NOT NULL,
    memory_bytes_max bigint  NOT NULL,
    -- How its cleanup ended, where it had its turn.
    cleanup          text,
    late_outcome     text,
    late_at          bigint,
    -- The set of files that the late end brought, by its hash.
    late_artifacts   text    COLLATE "C"
);

CREATE INDEX attempts_by_step ON attempts (job_id, ix, number);
-- Few at a time: what runs, and what was given up without proof.
CREATE INDEX attempts_in_doubt ON attempts (job_id, worker_id) WHERE NOT confirmed;
CREATE INDEX attempts_late_artifacts ON attempts (late_artifacts) WHERE late_artifacts IS NOT NULL;

-- Numbers come from counters, one after the other, and become visible in that order: see `add_events.sql`.
CREATE TABLE events (
    id        bigint PRIMARY KEY,
    job_id    uuid   NOT NULL,
    ix        bigint,
    at        bigint NOT NULL,
    kind      text   NOT NULL,
    verb      text,
    "from"    text,
    "to"      text,
    worker_id uuid,
    reason    text   NOT NULL
);

CREATE INDEX events_by_job ON events (job_id, id);

-- Words to somebody outside, with how far their delivery got.
CREATE TABLE outbox (
    id           uuid   PRIMARY KEY,
    job_id       uuid   NOT NULL,
    kind         text   NOT NULL,
    body         text   NOT NULL,
    created_at   bigint NOT NULL,
    tries        bigint NOT NULL DEFAULT 0,
    -- None once it is delivered or given up.
    next_at      bigint,
    delivered_at bigint,
    error        text
);

CREATE INDEX outbox_due ON outbox (next_at, id) WHERE next_at IS NOT NULL;
CREATE INDEX outbox_of_job ON outbox (job_id);
CREATE INDEX outbox_dead ON outbox (created_at) WHERE next_at IS NULL AND delivered_at IS NULL;

CREATE TABLE idempotency (
    token_id     uuid   NOT NULL,
    key          text   COLLATE "C" NOT NULL,
    request_hash bytea  NOT NULL,
    job_id       uuid   NOT NULL,
    created_at   bigint NOT NULL,
    PRIMARY KEY (token_id, key)
);

CREATE INDEX idempotency_of_job ON idempotency (job_id);

CREATE TABLE quarantine (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id uuid,
    at     bigint NOT NULL,
    event  text   NOT NULL,
    error  text   NOT NULL
);

CREATE INDEX quarantine_of_job ON quarantine (job_id) WHERE job_id IS NOT NULL;

CREATE TABLE logs (
    attempt_id uuid    PRIMARY KEY,
    last_seq   bigint  NOT NULL,
    complete   boolean NOT NULL,
    -- `complete` only because its time was over.
    closed     boolean NOT NULL,
    -- The attempt is over: its log is closed then, whole or not.
    close_at   bigint,
    -- The attempt's last line, where it is known.
    end_seq    bigint
);

CREATE INDEX logs_due ON logs (close_at) WHERE close_at IS NOT NULL;

CREATE TABLE log_chunks (
    attempt_id uuid   NOT NULL,
    first_seq  bigint NOT NULL,
    last_seq   bigint NOT NULL,
    blocks     bytea  NOT NULL,
    PRIMARY KEY (attempt_id, first_seq)
);

-- Lines that the server puts into an attempt's log. They stand after line `after_seq`, numbered by `sub`, so that no
-- line's own number ever moves.
CREATE TABLE log_marks (
    attempt_id uuid    NOT NULL,
    after_seq  bigint  NOT NULL,
    sub        bigint  NOT NULL,
    at         bigint  NOT NULL,
    -- Lines right after `after_seq` that this mark says are gone.
    missing    bigint  NOT NULL,
    -- The end of a log that was closed without its last lines; taken away if they come after all.
    closing    boolean NOT NULL,
    text       text    NOT NULL,
    PRIMARY KEY (attempt_id, after_seq, sub)
);

CREATE TABLE workers (
    id              uuid    PRIMARY KEY,
    name            text    COLLATE "C" NOT NULL,
    credential_hash bytea   NOT NULL UNIQUE,
    epoch           bigint  NOT NULL DEFAULT 0,
    -- The highest epoch that it has said something on: a state folder that knows only older ones is an old copy.
    used_epoch      bigint  NOT NULL DEFAULT 0,
    draining        boolean NOT NULL DEFAULT false,
    kind            text    NOT NULL DEFAULT 'static',
    tags            text    NOT NULL DEFAULT '[]',
    slots           bigint  NOT NULL DEFAULT 0,
    session_id      uuid,
    boot_id         text    NOT NULL DEFAULT '',
    state_id        uuid    NOT NULL,
    machine         text    NOT NULL DEFAULT '',
    version         text    NOT NULL DEFAULT '',
    platform        text    NOT NULL DEFAULT '',
    hostname        text    NOT NULL DEFAULT '',
    pid             bigint  NOT NULL DEFAULT 0,
    created_at      bigint  NOT NULL,
    started_at      bigint,
    last_seen_at    bigint,
    removed_at      bigint,
    -- When its last link was lost, in hearing time; NULL while it is connected.
    left_heard      bigint,
    -- It said that it will not come back for its attempts.
    no_reconnect    boolean NOT NULL DEFAULT false,
    -- The tags of the token with which it was enrolled; an empty list: it may have any.
    allowed_tags    text    NOT NULL,
    -- The server that has its link, or had its last one.
    server_id       uuid,
    -- It wants no new work itself.
    unwilling       boolean NOT NULL DEFAULT false,
    -- What it can do that older ones could not.
    features        text    NOT NULL DEFAULT '[]'
);

-- Workers that were deleted for not having been seen. Their credentials are still good for one thing: to be told so.
CREATE TABLE departed (
    worker_id       uuid   PRIMARY KEY,
    credential_hash bytea  NOT NULL UNIQUE,
    at              bigint NOT NULL
);

CREATE INDEX departed_by_age ON departed (at);

CREATE TABLE tokens (
    id         uuid   PRIMARY KEY,
    kind       text   NOT NULL,
    role       text   NOT NULL,
    name       text   NOT NULL,
    hash       bytea  NOT NULL UNIQUE,
    tags       text   NOT NULL,
    uses_left  bigint,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);

CREATE TABLE tasks (
    name      text   COLLATE "C" PRIMARY KEY,
    source    text   NOT NULL,
    pushed_at bigint NOT NULL,
    pushed_by text   NOT NULL
);

-- Sealed with the servers' key.
CREATE TABLE secrets (
    name   text   COLLATE "C" PRIMARY KEY,
    sealed bytea  NOT NULL,
    set_at bigint NOT NULL,
    set_by text   NOT NULL
);

-- What starts jobs by itself, and where it stands.
CREATE TABLE triggers (
    id         text   COLLATE "C" PRIMARY KEY,
    version    bigint NOT NULL,
    task       text   NOT NULL,
    kind       text   NOT NULL,
    definition text   NOT NULL,
    paused_at  bigint,
    paused_by  text,
    planned_at bigint,
    next_at    bigint,
    last_at    bigint,
    last_job   uuid,
    last_error text,
    missed     bigint NOT NULL,
    -- The last notice that times passed without a job.
    notice     text,
    notice_at  bigint
);

CREATE INDEX triggers_due ON triggers (next_at, id) WHERE next_at IS NOT NULL;

-- The job that was last admitted to each concurrency group: two who admit at once are told apart by it.
CREATE TABLE slot_groups (
    name          text   COLLATE "C" PRIMARY KEY,
    last_admitted uuid   NOT NULL,
    admitted_at   bigint NOT NULL
);

CREATE INDEX slot_groups_by_age ON slot_groups (admitted_at);

-- Jobs that go on where another one ended. The old one's row never changes.
CREATE TABLE lineage (
    job_id    uuid    PRIMARY KEY,
    continues uuid    NOT NULL,
    root      uuid    NOT NULL,
    number    bigint  NOT NULL,
    resolves  boolean NOT NULL,
    how       text    NOT NULL,
    by        text    NOT NULL,
    at        bigint  NOT NULL
);

-- A job has one that stands in for it, at most.
CREATE UNIQUE INDEX lineage_resolved ON lineage (continues) WHERE resolves;
-- All jobs that go on for the same first one, in the order in which they did: no two may go on at the same time.
CREATE UNIQUE INDEX lineage_family ON lineage (root, number);

-- Jobs that are off the record, and of which there is something left to take away.
CREATE TABLE doomed (
    job_id uuid   PRIMARY KEY,
    at     bigint NOT NULL
);

-- One row per attempt, sender and role: the newest sign of life, and how regular they were.
CREATE TABLE beats (
    attempt_id  uuid   NOT NULL,
    sender_id   uuid   NOT NULL,
    role        text   COLLATE "C" NOT NULL,
    hostname    text   NOT NULL,
    pid         bigint NOT NULL,
    first_at    bigint NOT NULL,
    last_at     bigint NOT NULL,
    count       bigint NOT NULL,
    longest_gap bigint NOT NULL,
    PRIMARY KEY (attempt_id, sender_id, role)
);

-- Stretches of heartbeats that ended: the sender's process changed, or it was silent for too long.
CREATE TABLE beat_history (
    attempt_id  uuid   NOT NULL,
    sender_id   uuid   NOT NULL,
    role        text   COLLATE "C" NOT NULL,
    hostname    text   NOT NULL,
    pid         bigint NOT NULL,
    first_at    bigint NOT NULL,
    last_at     bigint NOT NULL,
    count       bigint NOT NULL,
    longest_gap bigint NOT NULL,
    PRIMARY KEY (attempt_id, sender_id, role, first_at)
);

CREATE INDEX beats_by_age ON beats (last_at);
CREATE INDEX beat_history_by_age ON beat_history (last_at);

-- Hearing time: deadlines of silence stand still while the installation can neither hear nor commit. Steps keep them in
-- hearing time, so that deaf time changes this one row and no other.
CREATE TABLE hearing (
    id              bigint  PRIMARY KEY CHECK (id = 1),
    -- The last committed proof that somebody was listening.
    mark_at         bigint  NOT NULL,
    -- Hearing time is the installation's time less this.
    deaf_us         bigint  NOT NULL,
    -- These three are in hearing time.
    stretch_from    bigint  NOT NULL,
    unsettled_since bigint,
    verdicts_from   bigint  NOT NULL,
    alarmed         boolean NOT NULL
);

-- Many workers lost at once: the newest time that we suspected ourselves.
CREATE TABLE breaker (
    id         bigint PRIMARY KEY CHECK (id = 1),
    tripped_at bigint NOT NULL,
    lost       bigint NOT NULL,
    connected  bigint NOT NULL,
    ended_at   bigint
);

-- Servers find each other by these rows, and a worker's link belongs to one of them.
CREATE TABLE servers (
    -- Random, anew with every start.
    id         uuid   PRIMARY KEY,
    -- Counts the starts of this installation's servers.
    generation bigint NOT NULL,
    address    text   NOT NULL,
    started_at bigint NOT NULL,
    -- Its last mark, and the same in hearing time.
    beat_at    bigint NOT NULL,
    beat_heard bigint NOT NULL,
    -- It said that it goes.
    left_at    bigint
);

-- For operators: stable names, ids as text, times as timestamps. Times beyond all calendars are infinite.

CREATE FUNCTION bowline_time(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN us > 9000000000000000 THEN 'infinity'::timestamptz
                WHEN us < -9000000000000000 THEN '-infinity'::timestamptz
                ELSE 'epoch'::timestamptz + us * interval '1 microsecond' END
$$;

CREATE VIEW dispatch_queue AS
SELECT
    s.job_id || '/' || s.ix AS id,
    coalesce(s.attempt_id, last.id)::text AS run_id,
    s.job_id::text AS job_id,
    s.name AS step,
    s.state AS status,
    coalesce(s.worker_id, last.worker_id)::text AS agent_id,
    s.dispatch_attempts,
    s.error_message,
    bowline_time(s.disconnected_at) AS disconnected_at,
    -- The row keeps it in hearing time, which stands still while nobody can be heard.
    bowline_time(s.recovery_deadline + coalesce((SELECT deaf_us FROM hearing), 0)) AS recovery_deadline,
    bowline_time(j.created_at) AS created_at,
    bowline_time(s.updated_at) AS updated_at,
    -- Only what has not started can still expire.
    bowline_time(CASE WHEN j.started_at IS NULL AND j.ended_at IS NULL THEN j.expires_at END) AS expires_at
FROM steps s
JOIN jobs j ON j.id = s.job_id
LEFT JOIN LATERAL (
    SELECT a.id, a.worker_id FROM attempts a WHERE a.job_id = s.job_id AND a.ix = s.ix ORDER BY a.number DESC LIMIT 1
) last ON true;

CREATE VIEW heartbeats AS
WITH beat AS (
    SELECT attempt_id, sender_id, role, last_at, hostname, pid, '' AS stretch FROM beats
    UNION ALL
    SELECT attempt_id, sender_id, role, last_at, hostname, pid, '/' || first_at FROM beat_history
)
SELECT
    attempt_id || '/' || sender_id || '/' || role || stretch AS id,
    attempt_id::text AS task_id,
    sender_id::text AS sender_id,
    role,
    bowline_time(last_at) AS sent_at,
    hostname,
    pid
FROM beat;
