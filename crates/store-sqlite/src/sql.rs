//! Every statement, by name. A test prepares each of them against the schema.

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../sql/", $file, ".sql"));)*

        /// How many there are, so that a connection can keep them all prepared.
        pub(crate) const COUNT: usize = [$($file),*].len();

        #[cfg(test)]
        const ALL: [(&str, &str); COUNT] = [$(($file, $name)),*];
    };
}

statements! {
    ADD_DEFINITION = "add_definition";
    ADD_DEPARTED = "add_departed";
    ADD_DOOMED = "add_doomed";
    ADD_EVENT = "add_event";
    ADD_IDEMPOTENCY = "add_idempotency";
    ADD_LATE_OUTCOME = "add_late_outcome";
    ADD_LINEAGE = "add_lineage";
    ADD_LOG_CHUNK = "add_log_chunk";
    ADD_LOG_MARK = "add_log_mark";
    ADD_OUTBOX = "add_outbox";
    ADD_QUARANTINE = "add_quarantine";
    ADD_WORKER = "add_worker";
    ATTEMPT = "attempt";
    ATTEMPTS_OF_JOB = "attempts_of_job";
    ATTEMPTS_OF_STEP = "attempts_of_step";
    BEATS_OF_ATTEMPT = "beats_of_attempt";
    BEGIN_ATTEMPT = "begin_attempt";
    BREAKER = "breaker";
    CHANGED_SINCE = "changed_since";
    CHILDREN = "children";
    CLOSE_LOG = "close_log";
    CONFIRM_ATTEMPT = "confirm_attempt";
    COUNTER = "counter";
    DEAD_OUTBOX = "dead_outbox";
    DEFINITION_OF_JOB = "definition_of_job";
    DEPARTED = "departed";
    DEPARTED_BY_CREDENTIAL = "departed_by_credential";
    DOOM_JOB = "doom_job";
    DRAIN_WORKER = "drain_worker";
    DROP_ATTEMPT = "drop_attempt";
    DROP_BEATS = "drop_beats";
    DROP_BEAT_HISTORY = "drop_beat_history";
    DROP_CHUNKS = "drop_chunks";
    DROP_CLOSING_MARK = "drop_closing_mark";
    DROP_DEFINITION = "drop_definition";
    DROP_DOOMED = "drop_doomed";
    DROP_EVENTS = "drop_events";
    DROP_IDEMPOTENCY = "drop_idempotency";
    DROP_LINEAGE = "drop_lineage";
    DROP_LOG = "drop_log";
    DROP_MARKS = "drop_marks";
    DROP_OUTBOX = "drop_outbox";
    DROP_QUARANTINE = "drop_quarantine";
    DROP_STEPS = "drop_steps";
    DROP_STRAY_EVENTS = "drop_stray_events";
    DROP_STRAY_WORDS = "drop_stray_words";
    DROP_WORKER = "drop_worker";
    DUE_JOBS = "due_jobs";
    DUE_LOGS = "due_logs";
    DUE_OUTBOX = "due_outbox";
    DUE_STEPS = "due_steps";
    DUE_TRIGGERS = "due_triggers";
    END_BEAT_STRETCH = "end_beat_stretch";
    END_BREAKER = "end_breaker";
    EVENTS = "events";
    EVENTS_OF_JOB = "events_of_job";
    FAMILY = "family";
    FIRST_CHUNKS = "first_chunks";
    FIRST_DOOMED = "first_doomed";
    FOLLOWED = "followed";
    HEARING = "hearing";
    HELD = "held";
    HELD_STEPS = "held_steps";
    HOOKS = "hooks";
    IDEMPOTENCY = "idempotency";
    JOB = "job";
    JOBS = "jobs";
    JOBS_BY_PREFIX = "jobs_by_prefix";
    OPEN_KIN = "open_kin";
    JOBS_IN_STATE = "jobs_in_state";
    JOBS_OF_TASK = "jobs_of_task";
    JOBS_OF_TASK_IN_STATE = "jobs_of_task_in_state";
    JOB_COUNTS = "job_counts";
    JOB_VERSION = "job_version";
    LAST_EVENT = "last_event";
    LAST_JOB = "last_job";
    LAST_LINE = "last_line";
    LAST_ADMITTED = "last_admitted";
    LEASE = "lease";
    LEASES = "leases";
    LINE = "line";
    LINEAGE = "lineage";
    LOG_CHUNKS = "log_chunks";
    LOG_MARKS = "log_marks";
    LOG_STATE = "log_state";
    META = "meta";
    MOVE_OUTBOX = "move_outbox";
    NEXT_CHECK_OF_JOBS = "next_check_of_jobs";
    NEXT_CHECK_OF_LOGS = "next_check_of_logs";
    NEXT_CHECK_OF_STEPS = "next_check_of_steps";
    NEXT_CHECK_OF_TRIGGERS = "next_check_of_triggers";
    NEXT_LOGGED = "next_logged";
    NEXT_GROUP = "next_group";
    NEXT_LINE = "next_line";
    NEXT_OUTBOX = "next_outbox";
    OLD_JOBS = "old_jobs";
    OLD_LOG = "old_log";
    OUTBOX = "outbox";
    OUTBOX_COUNTS = "outbox_counts";
    OUTBOX_OF_JOB = "outbox_of_job";
    PLACE_OF_GRANTED = "place_of_granted";
    PLACE_OF_OFFERED = "place_of_offered";
    PRUNE_BEATS = "prune_beats";
    PRUNE_BEAT_HISTORY = "prune_beat_history";
    PRUNE_DEPARTED = "prune_departed";
    PRUNE_GROUPS = "prune_groups";
    PRUNE_SERVERS = "prune_servers";
    PUT_ATTEMPT = "put_attempt";
    PUT_BEAT = "put_beat";
    PUT_BREAKER = "put_breaker";
    PUT_COUNTER = "put_counter";
    PUT_GROUP = "put_group";
    PUT_HEARING = "put_hearing";
    PUT_JOB = "put_job";
    PUT_LEASE = "put_lease";
    PUT_LOG_DEADLINE = "put_log_deadline";
    PUT_LOG_STATE = "put_log_state";
    PUT_META = "put_meta";
    PUT_SECRET = "put_secret";
    PUT_SERVER = "put_server";
    PUT_STEP = "put_step";
    PUT_TASK = "put_task";
    PUT_TOKEN = "put_token";
    PUT_TRIGGER = "put_trigger";
    QUEUED_STEPS = "queued_steps";
    REMOVE_SECRET = "remove_secret";
    REMOVE_WORKER = "remove_worker";
    REVOKE_TOKEN = "revoke_token";
    SECRET = "secret";
    SECRETS = "secrets";
    SERVERS = "servers";
    SOME_ATTEMPTS = "some_attempts";
    SOME_DEFINITIONS = "some_definitions";
    SLOTS = "slots";
    SPEND_ENROLL_TOKEN = "spend_enroll_token";
    STALE_ATTEMPTS = "stale_attempts";
    STATE_OF_STEP = "state_of_step";
    STEPS_OF_JOB = "steps_of_job";
    STEP_NAMED = "step_named";
    STRAY_EVENTS = "stray_events";
    STRAY_SLOTS = "stray_slots";
    STRAY_WORDS = "stray_words";
    TASK_STAMPS = "task_stamps";
    TASKS = "tasks";
    TOKENS = "tokens";
    TOKEN_BY_HASH = "token_by_hash";
    TRIGGER = "trigger";
    TRIGGERS = "triggers";
    TRIGGER_VERSION = "trigger_version";
    WEIGHT = "weight";
    UNCONFIRMED_ATTEMPTS = "unconfirmed_attempts";
    WANTED_ARTIFACTS = "wanted_artifacts";
    WORKER = "worker";
    WORKERS = "workers";
    WORKER_BY_CREDENTIAL = "worker_by_credential";
    WORKER_HELLO = "worker_hello";
    WORKER_LEFT = "worker_left";
    WORKER_SEEN = "worker_seen";
    WORKER_UNWILLING = "worker_unwilling";
    WORKER_USED_EPOCH = "worker_used_epoch";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use rusqlite::Connection;

    use super::*;
    use crate::migrate;

    fn migrated() -> Connection {
        let mut connection = Connection::open_in_memory().expect("an empty database");
        migrate::run(&mut connection, "memory", migrate::MIGRATIONS).expect("the schema");
        connection
    }

    #[test]
    fn every_statement_can_be_prepared() {
        let connection = migrated();
        for (name, text) in ALL {
            if let Err(error) = connection.prepare(text) {
                panic!("{name}.sql: {error}");
            }
        }
    }

    #[test]
    fn every_file_is_a_statement() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .expect("the folder of statements")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let known: BTreeSet<String> = ALL.iter().map(|(name, _)| format!("{name}.sql")).collect();
        assert_eq!(files, known);
    }

    /// What runs all the time must not read a whole table.
    #[test]
    fn the_hot_statements_walk_an_index() {
        let connection = migrated();
        for (name, text) in ALL {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("a plan");
            let mut rows = plan.raw_query();
            while let Some(row) = rows.next().expect("a line of the plan") {
                let line: String = row.get(3).expect("its text");
                let scans = line.starts_with("SCAN") && !line.contains("INDEX") && !line.contains("CONSTANT ROW");
                let small = ["workers", "tokens", "tasks", "secrets", "triggers", "servers", "prune_servers", "leases"]
                    .contains(&name);
                // Whatever is set aside is a fault of ours: there are few, or far worse troubles.
                let small = small || ["stray_events", "drop_stray_events"].contains(&name);
                let ordered = ["jobs", "last_job", "events"].contains(&name);
                assert!(!scans || small || ordered, "{name}.sql: {line}");
            }
        }
    }
}
