-- Hearing time: deadlines of silence stand still while the installation can neither hear nor commit. Steps keep them in
-- hearing time, so that deaf time changes this one row and no other.

CREATE TABLE hearing (
    id              INTEGER PRIMARY KEY CHECK (id = 1),
    -- The last committed proof that somebody was listening.
    mark_at         INTEGER NOT NULL,
    -- Hearing time is the installation's time less this.
    deaf_us         INTEGER NOT NULL,
    -- These three are in hearing time.
    stretch_from    INTEGER NOT NULL,
    unsettled_since INTEGER,
    verdicts_from   INTEGER NOT NULL,
    alarmed         INTEGER NOT NULL
);

-- When a worker's last link was lost, in hearing time; NULL while it is connected.
ALTER TABLE workers ADD COLUMN left_heard INTEGER;
-- It said that it will not come back for its attempts.
ALTER TABLE workers ADD COLUMN no_reconnect INTEGER NOT NULL DEFAULT 0;

-- Many workers lost at once: the newest time that we suspected ourselves.
CREATE TABLE breaker (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    tripped_at INTEGER NOT NULL,
    lost       INTEGER NOT NULL,
    connected  INTEGER NOT NULL,
    ended_at   INTEGER
);

DROP VIEW dispatch_queue;

CREATE VIEW dispatch_queue AS
WITH entry AS (
    SELECT s.*, j.created_at,
           -- The row keeps it in hearing time, which stands still while nobody can be heard.
           s.recovery_deadline + coalesce((SELECT deaf_us FROM hearing), 0) AS window_ends,
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
    strftime('%Y-%m-%dT%H:%M:%S', window_ends / 1000000, 'unixepoch') || printf('.%06dZ', window_ends % 1000000) AS recovery_deadline,
    strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000, 'unixepoch') || printf('.%06dZ', created_at % 1000000) AS created_at,
    strftime('%Y-%m-%dT%H:%M:%S', updated_at / 1000000, 'unixepoch') || printf('.%06dZ', updated_at % 1000000) AS updated_at,
    strftime('%Y-%m-%dT%H:%M:%S', expires_at / 1000000, 'unixepoch') || printf('.%06dZ', expires_at % 1000000) AS expires_at
FROM entry;
