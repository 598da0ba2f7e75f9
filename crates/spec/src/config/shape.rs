//! Every key of the config files, as data: for hints, for the JSON Schemas, for the readers, for the environment.

use crate::lower::{Key, Kind, Shape};
use crate::task::shape::HOOK;

/// A year in seconds: settings in seconds are far below.
pub(super) const SECONDS_MAX: f64 = 31_536_000.0;
/// A millisecond: less is no interval.
pub(super) const SECONDS_MIN: f64 = 0.001;
pub(super) const DAYS_MAX: f64 = 36_500.0;
pub(super) const COUNT_MAX: i64 = 1_000_000;
pub(super) const SLOTS_MAX: i64 = 10_000;
/// Each is a process of the database.
pub(super) const CONNECTIONS_MAX: i64 = 100;
pub(super) const LINES_MIN: i64 = 10_000;
pub(super) const LINES_MAX: i64 = 1_000_000_000;

pub(super) const LOG_LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];
pub(super) const LOG_FORMATS: &[&str] = &["text", "json"];

const SECONDS: Kind = Kind::Number { min: SECONDS_MIN, max: SECONDS_MAX };
const COUNT: Kind = Kind::Integer { min: 1, max: COUNT_MAX };
const OPTIONAL_DURATION: Kind = Kind::OneOf(&[Kind::Duration, Kind::Null]);
const OPTIONAL_TEXT: Kind = Kind::OneOf(&[Kind::Text, Kind::Null]);
const OPTIONAL_DAYS: Kind = Kind::OneOf(&[Kind::Number { min: 0.0, max: DAYS_MAX }, Kind::Null]);

pub(crate) static SERVER: Shape = Shape {
    title: "the server's configuration",
    keys: &[
        Key::new("listen", Kind::Text, "address and port"),
        Key::new("data", Kind::Text, "the folder that holds the SQLite file, admin.token and keys"),
        Key::new("database", Kind::Text, "sqlite, sqlite:PATH, or postgres://user@host/db"),
        Key::new("postgres", Kind::Shape(&POSTGRES), "how a PostgreSQL database is reached, beyond its address"),
        Key::new("tasks", Kind::Text, "the folder of task files"),
        Key::new("defaults", Kind::Shape(&DEFAULTS), "what tasks say unless they say otherwise"),
        Key::new("recovery", Kind::Shape(&RECOVERY), "how silence is judged"),
        Key::new("retention", Kind::Shape(&RETENTION), "how long things are kept"),
        Key::new("environments", Kind::Map(&Kind::Shape(&ENVIRONMENT)), "protected environments, by name"),
        Key::new("credentials", Kind::Shape(&CREDENTIALS), "the workers' credentials"),
        Key::new("notices", Kind::Shape(&NOTICES), "what people are told of although nothing has failed"),
        Key::new("mail", Kind::Shape(&MAIL), "how mails are sent"),
        Key::new(
            "artifacts",
            Kind::Shape(&ARTIFACTS),
            "where the files lie that steps leave, and how much they may be",
        ),
        Key::new("scalers", Kind::List(&Kind::Any), "what makes workers when they are needed"),
    ],
    synonyms: &[
        ("address", "listen"),
        ("bind", "listen"),
        ("port", "listen"),
        ("db", "database"),
        ("data_dir", "data"),
    ],
};

pub(crate) static POSTGRES: Shape = Shape {
    title: "`postgres`",
    keys: &[
        Key::new(
            "pooled",
            Kind::Boolean,
            "`database` leads to a connection pooler in transaction mode; false if not said",
        ),
        Key::new(
            "listen",
            OPTIONAL_TEXT,
            "postgres://… of the database itself, to hear other servers where `database` leads to a pooler; null: by looking",
        ),
        Key::new(
            "connections",
            Kind::Integer { min: 1, max: CONNECTIONS_MAX },
            "that read, at most, besides one that writes and one that listens; 4 if not said",
        ),
    ],
    synonyms: &[
        ("pgbouncer", "pooled"),
        ("pooler", "pooled"),
        ("notify", "listen"),
        ("pool_size", "connections"),
        ("max_connections", "connections"),
    ],
};

pub(crate) static ARTIFACTS: Shape = Shape {
    title: "`artifacts`",
    keys: &[
        Key::new(
            "path",
            OPTIONAL_TEXT,
            "the folder, which several servers must share; `artifacts` in `data` if not said",
        ),
        Key::new("max_bytes", Kind::Size, "all of them together; 50GiB if not said"),
        Key::new("max_step_bytes", Kind::Size, "those of one attempt; 5GiB if not said"),
    ],
    synonyms: &[("folder", "path"), ("dir", "path"), ("quota", "max_bytes")],
};

pub(crate) static DEFAULTS: Shape = Shape {
    title: "`defaults`",
    keys: &[
        Key::new("step_timeout", OPTIONAL_DURATION, "how long one attempt of a step may take"),
        Key::new("job_timeout", OPTIONAL_DURATION, "how long a job may take"),
        Key::new("expires", OPTIONAL_DURATION, "a job that has not started by then fails"),
    ],
    synonyms: &[("timeout", "step_timeout")],
};

pub(crate) static RECOVERY: Shape = Shape {
    title: "`recovery`",
    keys: &[
        Key::new("heartbeat_interval_secs", SECONDS, "worker to server"),
        Key::new("heartbeat_timeout_secs", SECONDS, "a worker that is silent for so long is inactive"),
        Key::new("runner_heartbeat_interval_secs", SECONDS, "runner to server"),
        Key::new("running_stale_secs", SECONDS, "a runner that is silent for so long is stopped"),
        Key::new("claimed_stale_secs", SECONDS, "a claim that is silent for so long is taken back"),
        Key::new("sweep_interval_secs", SECONDS, "how often everything is looked at"),
        Key::new("unmatched_step_timeout_secs", SECONDS, "how long a step waits for a worker with its tags"),
        Key::new("link_ping_secs", SECONDS, "three unanswered: the link is lost"),
        Key::new("max_reconnect_delay_secs", SECONDS, "the recovery window is twice this"),
        Key::new("dispatch_ack_secs", SECONDS, "how long an offer waits for its answer"),
        Key::new("dispatch_grace_secs", SECONDS, "how long a new attempt may be missing from a report"),
        Key::new("max_dispatch_attempts", COUNT, "unanswered offers before a step fails"),
        Key::new("max_losses", COUNT, "lost workers before a step fails"),
        Key::new(
            "caretaker_after_secs",
            Kind::OneOf(&[SECONDS, Kind::Null]),
            "a runner without a worker starts one after so long; null: never",
        ),
        Key::new("mass_loss", Kind::Shape(&MASS_LOSS), "when to suspect ourselves"),
        Key::new("auto_requeue_stale_claimed", Kind::Boolean, "take stale claims back without being asked"),
        Key::new("auto_fail_stale_running", Kind::Boolean, "stop stale runners without being asked"),
        Key::new(
            "heartbeat_retention_hours",
            Kind::OneOf(&[Kind::Number { min: 0.0, max: DAYS_MAX * 24.0 }, Kind::Null]),
            "how long heartbeats are kept; null: for ever",
        ),
    ],
    synonyms: &[("recovery_window_secs", "max_reconnect_delay_secs")],
};

pub(crate) static MASS_LOSS: Shape = Shape {
    title: "`mass_loss`",
    keys: &[
        Key::new("min_workers", COUNT, "so many workers at least"),
        Key::new("fraction", Kind::Number { min: 0.0, max: 1.0 }, "more than this share of them"),
        Key::new("within_secs", SECONDS, "within this time"),
    ],
    synonyms: &[],
};

pub(crate) static RETENTION: Shape = Shape {
    title: "`retention`",
    keys: &[
        Key::new("jobs_days", OPTIONAL_DAYS, "ended jobs; null: for ever"),
        Key::new("logs_days", OPTIONAL_DAYS, "their logs; null: for ever"),
        Key::new("workers_days", OPTIONAL_DAYS, "workers that were not seen; null: for ever"),
    ],
    synonyms: &[],
};

pub(crate) static ENVIRONMENT: Shape = Shape {
    title: "an environment",
    keys: &[
        Key::new("reviewers", Kind::Integer { min: 0, max: 100 }, "how many people must say yes"),
        Key::new("wait", Kind::Duration, "a timer before that"),
        Key::new("hold_expires", Kind::Duration, "how long they have"),
        Key::new("allow_submitter", Kind::Boolean, "whether who submitted the job may say yes"),
    ],
    synonyms: &[("expires", "hold_expires")],
};

pub(crate) static NOTICES: Shape = Shape {
    title: "`notices`",
    keys: &[
        Key::new(
            "queue",
            OPTIONAL_DURATION,
            "a step that waits for a worker for longer is worth a notice; null: never",
        ),
        Key::new("on", Kind::List(&Kind::Shape(&HOOK)), "what follows on every notice, besides the task's `on_notice`"),
    ],
    synonyms: &[("on_notice", "on"), ("hooks", "on")],
};

pub(crate) static MAIL: Shape = Shape {
    title: "`mail`",
    keys: &[
        Key::new("sendmail", Kind::Text, "the program that takes mails, called with `-t -i`"),
        Key::new("from", Kind::Text, "the address that mails come from"),
    ],
    synonyms: &[("path", "sendmail"), ("sender", "from")],
};

pub(crate) static CREDENTIALS: Shape = Shape {
    title: "`credentials`",
    keys: &[
        Key::new("ttl", Kind::Duration, "how long a worker's credential is good"),
        Key::new("refresh", Kind::Duration, "how often it is renewed"),
    ],
    synonyms: &[],
};

pub(crate) static WORKER: Shape = Shape {
    title: "the worker's configuration",
    keys: &[
        Key::new("servers", Kind::List(&Kind::Text), "the servers' addresses, tried in turn"),
        Key::new("name", Kind::Text, "what people call it; the host's name if not said"),
        Key::new("tags", Kind::List(&Kind::Text), "what it can do; [script] if not said"),
        Key::new("slots", Kind::Integer { min: 1, max: SLOTS_MAX }, "steps at once; the number of cores if not said"),
        Key::new("state", Kind::Text, "the folder that holds its credential and its attempts"),
        Key::new("enroll_token_file", OPTIONAL_TEXT, "a file with the token of its first start"),
        Key::new("ca_file", OPTIONAL_TEXT, "a file with the certificate authority of the servers"),
        Key::new("spool", Kind::Shape(&SPOOL), "how much is kept while the servers are away"),
        Key::new("stop_grace", Kind::Duration, "how long steps may go on without a worker after it was told to stop"),
        Key::new("log", Kind::Shape(&LOG), "its own log"),
    ],
    synonyms: &[
        ("server", "servers"),
        ("url", "servers"),
        ("labels", "tags"),
        ("concurrency", "slots"),
        ("state_dir", "state"),
    ],
};

pub(crate) static SPOOL: Shape = Shape {
    title: "`spool`",
    keys: &[
        Key::new("log_lines", Kind::Integer { min: LINES_MIN, max: LINES_MAX }, "lines per attempt"),
        Key::new("log_bytes", Kind::Size, "bytes per attempt"),
        Key::new("events", Kind::Integer { min: 100, max: COUNT_MAX }, "progress events per attempt"),
        Key::new("keep_after_ack", Kind::Duration, "how long ended attempts are kept"),
    ],
    synonyms: &[],
};

pub(crate) static LOG: Shape = Shape {
    title: "`log`",
    keys: &[
        Key::new("level", Kind::Words(LOG_LEVELS), "the least that is written"),
        Key::new("format", Kind::Words(LOG_FORMATS), "how it is written"),
    ],
    synonyms: &[],
};
