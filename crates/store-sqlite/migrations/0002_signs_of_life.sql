-- Lines that the server puts into an attempt's log, the time by which a log is closed, and the history of heartbeats.

-- They stand after line `after_seq`, numbered by `sub`, so that no line's own number ever moves.
CREATE TABLE log_marks (
    attempt_id BLOB    NOT NULL,
    after_seq  INTEGER NOT NULL,
    sub        INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    -- Lines right after `after_seq` that this mark says are gone.
    missing    INTEGER NOT NULL,
    -- The end of a log that was closed without its last lines; taken away if they come after all.
    closing    INTEGER NOT NULL,
    text       TEXT    NOT NULL,
    PRIMARY KEY (attempt_id, after_seq, sub)
) WITHOUT ROWID;

-- The attempt is over: its log is closed then, whole or not.
ALTER TABLE logs ADD COLUMN close_at INTEGER;
-- The attempt's last line, where it is known.
ALTER TABLE logs ADD COLUMN end_seq INTEGER;
-- `complete` only because its time was over.
ALTER TABLE logs ADD COLUMN closed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX logs_due ON logs (close_at) WHERE close_at IS NOT NULL;

-- Stretches of heartbeats that ended: the sender's process changed, or it was silent for too long.
CREATE TABLE beat_history (
    attempt_id  BLOB    NOT NULL,
    sender_id   BLOB    NOT NULL,
    role        TEXT    NOT NULL,
    hostname    TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    first_at    INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    longest_gap INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, sender_id, role, first_at)
) WITHOUT ROWID;

CREATE INDEX beats_by_age ON beats (last_at);
CREATE INDEX beat_history_by_age ON beat_history (last_at);

DROP VIEW heartbeats;
CREATE VIEW heartbeats AS
WITH beat AS (
    SELECT role, last_at, hostname, pid, '' AS stretch,
           lower(printf('%s-%s-%s-%s-%s', substr(hex(attempt_id), 1, 8), substr(hex(attempt_id), 9, 4),
                        substr(hex(attempt_id), 13, 4), substr(hex(attempt_id), 17, 4), substr(hex(attempt_id), 21))) AS task_id,
           lower(printf('%s-%s-%s-%s-%s', substr(hex(sender_id), 1, 8), substr(hex(sender_id), 9, 4),
                        substr(hex(sender_id), 13, 4), substr(hex(sender_id), 17, 4), substr(hex(sender_id), 21))) AS sender_id
    FROM beats
    UNION ALL
    SELECT role, last_at, hostname, pid, '/' || first_at,
           lower(printf('%s-%s-%s-%s-%s', substr(hex(attempt_id), 1, 8), substr(hex(attempt_id), 9, 4),
                        substr(hex(attempt_id), 13, 4), substr(hex(attempt_id), 17, 4), substr(hex(attempt_id), 21))),
           lower(printf('%s-%s-%s-%s-%s', substr(hex(sender_id), 1, 8), substr(hex(sender_id), 9, 4),
                        substr(hex(sender_id), 13, 4), substr(hex(sender_id), 17, 4), substr(hex(sender_id), 21)))
    FROM beat_history
)
SELECT
    task_id || '/' || sender_id || '/' || role || stretch AS id,
    task_id,
    sender_id,
    role,
    strftime('%Y-%m-%dT%H:%M:%S', last_at / 1000000, 'unixepoch') || printf('.%06dZ', last_at % 1000000) AS sent_at,
    hostname,
    pid
FROM beat;
