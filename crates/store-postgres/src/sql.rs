//! Every statement, by name. A test prepares each of them against the schema.

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../sql/", $file, ".sql"));)*

        #[cfg(test)]
        pub(crate) const ALL: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

statements! {
    ADD_DEFINITION = "add_definition";
    ADD_DEPARTED = "add_departed";
    ADD_EVENTS = "add_events";
    ADD_IDEMPOTENCY = "add_idempotency";
    ADD_JOB = "add_job";
    ADD_LATE_OUTCOME = "add_late_outcome";
    ADD_LINEAGE = "add_lineage";
    ADD_LOG_CHUNK = "add_log_chunk";
    ADD_LOG_MARK = "add_log_mark";
    ADD_OUTBOX = "add_outbox";
    ADD_QUARANTINE = "add_quarantine";
    ADD_WORKER = "add_worker";
    ATTEMPT = "attempt";
    ATTEMPTS_OF_JOB = "attempts_of_job";
    BEATS_OF_ATTEMPT = "beats_of_attempt";
    BEGIN_ATTEMPT = "begin_attempt";
    BREAKER = "breaker";
    CHANGED_SINCE = "changed_since";
    CHILDREN = "children";
    CLOCK = "clock";
    CLOSE_LOG = "close_log";
    CONFIRM_ATTEMPT = "confirm_attempt";
    DEAD_OUTBOX = "dead_outbox";
    DEFINITION_OF_JOB = "definition_of_job";
    DEPARTED = "departed";
    DEPARTED_BY_CREDENTIAL = "departed_by_credential";
    DEPARTING = "departing";
    DOOM_JOB = "doom_job";
    DRAIN_WORKER = "drain_worker";
    DROP_ATTEMPT = "drop_attempt";
    DROP_BEAT_HISTORY = "drop_beat_history";
    DROP_BEATS = "drop_beats";
    DROP_CHUNKS = "drop_chunks";
    DROP_CLOSING_MARK = "drop_closing_mark";
    DROP_DEFINITIONS = "drop_definitions";
    DROP_DEPARTED = "drop_departed";
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
    GROUPS = "groups";
    HEARING = "hearing";
    HELD = "held";
    HELD_STEPS = "held_steps";
    HOOKS = "hooks";
    IDEMPOTENCY = "idempotency";
    JOB = "job";
    JOB_COUNTS = "job_counts";
    JOBS = "jobs";
    JOBS_BY_PREFIX = "jobs_by_prefix";
    JOBS_IN_STATE = "jobs_in_state";
    JOBS_OF_TASK = "jobs_of_task";
    JOBS_OF_TASK_IN_STATE = "jobs_of_task_in_state";
    KNOWN_KEYS = "known_keys";
    LAST_ADMITTED = "last_admitted";
    LAST_EVENT = "last_event";
    LAST_JOB = "last_job";
    LEASES = "leases";
    LINE = "line";
    LINEAGE = "lineage";
    LINES = "lines";
    LOCK_ATTEMPTS = "lock_attempts";
    LOCK_BEATS = "lock_beats";
    LOCK_DEFINITIONS = "lock_definitions";
    LOCK_GROUPS = "lock_groups";
    LOCK_HEARING = "lock_hearing";
    LOCK_JOBS = "lock_jobs";
    LOCK_LEASES = "lock_leases";
    LOCK_LOGS = "lock_logs";
    LOCK_OUTBOX = "lock_outbox";
    LOCK_TRIGGERS = "lock_triggers";
    LOCK_WORKERS = "lock_workers";
    LOCK_WRITER = "lock_writer";
    LOG_CHUNKS = "log_chunks";
    LOG_MARKS = "log_marks";
    LOG_STATES = "log_states";
    META = "meta";
    MOVE_OUTBOX = "move_outbox";
    NEXT_CHECK = "next_check";
    NEXT_GENERATION = "next_generation";
    NEXT_OUTBOX = "next_outbox";
    OLD_JOBS = "old_jobs";
    OLD_LOG = "old_log";
    OLD_LOGS = "old_logs";
    OPEN_KIN = "open_kin";
    OUTBOX = "outbox";
    OUTBOX_COUNTS = "outbox_counts";
    OUTBOX_OF_JOB = "outbox_of_job";
    PLACES_OF = "places_of";
    PLACE_OF = "place_of";
    PRUNE_BEAT_HISTORY = "prune_beat_history";
    PRUNE_BEATS = "prune_beats";
    PRUNE_DEPARTED = "prune_departed";
    PRUNE_GROUPS = "prune_groups";
    PRUNE_SERVERS = "prune_servers";
    PUT_ATTEMPT = "put_attempt";
    PUT_BEAT = "put_beat";
    PUT_BREAKER = "put_breaker";
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
    RESERVE_FENCES = "reserve_fences";
    REVOKE_TOKEN = "revoke_token";
    SECRET = "secret";
    SECRETS = "secrets";
    SERVERS = "servers";
    SLOTS = "slots";
    SOME_ATTEMPTS = "some_attempts";
    SOME_DEFINITIONS = "some_definitions";
    SOME_JOBS = "some_jobs";
    OPEN_AMONG = "open_among";
    SPEND_ENROLL_TOKEN = "spend_enroll_token";
    STALE_ATTEMPTS = "stale_attempts";
    STEP = "step";
    STEP_NAMED = "step_named";
    STEPS_OF_JOB = "steps_of_job";
    STEPS_OF_JOBS = "steps_of_jobs";
    STRAY_EVENTS = "stray_events";
    STRAY_SLOTS = "stray_slots";
    STRAY_WORDS = "stray_words";
    TAKEN_KEYS = "taken_keys";
    TASK_STAMPS = "task_stamps";
    TASKS = "tasks";
    TOKEN_BY_HASH = "token_by_hash";
    TOKENS = "tokens";
    TRIGGER = "trigger";
    TRIGGERS = "triggers";
    UNCONFIRMED_ATTEMPTS = "unconfirmed_attempts";
    WANTED_ARTIFACTS = "wanted_artifacts";
    WEIGHT = "weight";
    WORKER = "worker";
    WORKER_BY_CREDENTIAL = "worker_by_credential";
    WORKER_HELLO = "worker_hello";
    WORKER_LEFT = "worker_left";
    WORKER_SEEN = "worker_seen";
    WORKER_UNWILLING = "worker_unwilling";
    WORKER_USED_EPOCH = "worker_used_epoch";
    WORKERS = "workers";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::time::Duration;

    use testkit::postgres::Database;
    use tokio_postgres::Client;
    use tokio_postgres::types::Type;

    use super::*;
    use crate::PostgresStore;
    use crate::driver::wait;
    use crate::place::{Place, Purpose};

    const LONG: Duration = Duration::from_secs(60);

    /// The schema, and a plain connection to it.
    fn migrated<T>(look: impl AsyncFnOnce(&Client) -> T) -> T {
        let database = Database::new();
        drop(PostgresStore::open(&database.url()).expect("the schema"));
        let place = Place::new(&database.url(), false).expect("an address");
        let session = place.connect(Purpose::Write).expect("a connection");
        wait(LONG, look(&session.client)).expect("an answer")
    }

    #[test]
    fn every_statement_can_be_prepared() {
        migrated(async |client| {
            for (name, text) in ALL {
                if let Err(error) = client.prepare(text).await {
                    panic!("{name}.sql: {error:?}");
                }
            }
        });
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
        // Whatever is set aside is a fault of ours: there are few, or far worse troubles.
        const SMALL: [&str; 6] = ["leases", "prune_servers", "servers", "stray_events", "tokens", "workers"];
        migrated(async |client| {
            for (name, text) in ALL {
                let params = client.prepare(text).await.expect("a statement").params().to_vec();
                let nulls: Vec<String> =
                    params.iter().map(|kind: &Type| format!("NULL::{}", kind_name(kind))).collect();
                let (kinds, nulls) = (params.iter().map(kind_name).collect::<Vec<_>>().join(", "), nulls.join(", "));
                let kinds = if kinds.is_empty() { kinds } else { format!("({kinds})") };
                let nulls = if nulls.is_empty() { nulls } else { format!("({nulls})") };
                client.batch_execute(&format!("PREPARE asked {kinds} AS {text}")).await.expect(name);
                let plan = client.query(&format!("EXPLAIN EXECUTE asked {nulls}"), &[]).await.expect(name);
                client.batch_execute("DEALLOCATE asked").await.expect(name);
                for line in plan.iter().map(|row| row.get::<_, String>(0)) {
                    let scans = line.contains("Seq Scan") || line.contains("Hash Join");
                    assert!(!scans || SMALL.contains(name), "{name}.sql: {line}");
                    assert!(!line.starts_with("JIT"), "{name}.sql would be compiled each time");
                }
            }
        });
    }

    fn kind_name(kind: &Type) -> String {
        match kind.name().strip_prefix('_') {
            Some(of) => format!("{of}[]"),
            None => kind.name().to_owned(),
        }
    }
}
