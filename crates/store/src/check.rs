//! What must hold of every database, as queries that find whatever does not. `bowline db check` asks them, of both stores.
//!
//! Each check is a file of SQL whose rows are the offenders: `job`, `ix` and `other` (the id of an attempt, a worker or another job)
//! say where, `what` says what is wrong with it. Most are the same text for every store and lie in `checks/` here; what needs
//! a dialect lies in the folder `checks/` of each store. A few read values row by row (`reading.rs`). They may ask `known`, a row that [`statement`] puts before them:
//!
//! | column | |
//! |---|---|
//! | `clock` | the clock of whoever asks, or of the database |
//! | `marked` | the last committed mark; the clock where there is none |
//! | `now` | the later one of both: the installation's time never goes back |
//! | `latest`, `overdue` | later, or sooner, no check time is good |
//! | `deleted` | a job with a lower id may have been deleted for its age |

mod reading;

use std::fmt::Write;
use std::time::Duration;

use engine::deadline::LOOK_AGAIN;
use engine::{JobId, Time};
use uuid::Uuid;

pub use reading::{Kind, Readers, Reading, Tally, Value, Whereabouts};

/// The check that comes before all others. It is no query: where it fails nothing else can be asked.
pub const SCHEMA: Check = CHECKS[0];

/// The key of [`set_meta`](crate::Store::set_meta) under which retention says up to when jobs were ever deleted.
pub const RETENTION_KEY: &str = "retention";

/// Servers' clocks differ, and check times move on with deaf time.
const SLACK: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    /// What must hold, in a sentence for people.
    pub says: &'static str,
    pub grade: Grade,
    text: Option<&'static str>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// The rows contradict each other, or something in them is stuck.
    Damage,
    /// Worth a look, and possible in a sound database.
    Doubt,
}

/// What one check came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: Check,
    /// How many offenders there are; those that come first are named.
    pub count: u64,
    pub first: Vec<Offender>,
    pub took: Duration,
}

/// Something that a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offender {
    pub job: Option<Uuid>,
    pub step: Option<i64>,
    /// An attempt, a worker, or another job.
    pub other: Option<Uuid>,
    pub what: String,
}

/// What the checks are asked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub clock: Time,
    /// The last mark.
    pub marked: Option<Time>,
    /// Up to when jobs were ever deleted.
    pub deleted: Option<Time>,
}

/// How a store writes what the stores write differently.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// The columns of an offender, as they are to be read.
    pub columns: &'static str,
    pub id: fn(Uuid) -> String,
    /// What stands before a table's name, so that nothing else can have that name.
    pub schema: &'static str,
    /// The texts that only this store has, by their checks' names.
    pub own: &'static [(&'static str, &'static str)],
}

macro_rules! checks {
    ($($name:literal $grade:ident $text:expr, $says:literal;)*) => {
        /// All of them, in the order in which they are asked.
        pub const CHECKS: &[Check] = &[$(Check { name: $name, says: $says, grade: Grade::$grade, text: $text }),*];
    };
}

/// A text that every store understands.
macro_rules! shared {
    ($file:literal) => {
        Some(include_str!(concat!("../checks/", $file, ".sql")))
    };
}

/// Each store brings its own text for these, or has nothing to ask.
const OWN: Option<&str> = None;

checks! {
    "schema" Damage OWN, "The schema is the one that this build knows.";
    "file" Damage OWN, "The file of the database is whole.";
    "job-words" Damage shared!("job_words"), "The states, owners and actions of jobs are words that this build knows.";
    "step-words" Damage shared!("step_words"), "The states, owners and actions of steps are words that this build knows.";
    "attempt-words" Damage shared!("attempt_words"), "The states of attempts are words that this build knows.";
    "job-owner" Damage shared!("job_owner"), "Every job that is not over has an owner, a check time and an action, and no other job has.";
    "step-owner" Damage shared!("step_owner"), "Every step that is not over has an owner, a check time and an action, and no other step has.";
    "job-check-far" Damage shared!("job_check_far"), "Every job that is not over is looked at within the hour.";
    "step-check-far" Damage shared!("step_check_far"), "Every step that is not over is looked at within the hour.";
    "job-overdue" Doubt shared!("job_overdue"), "No job waits for long to be looked at.";
    "step-overdue" Doubt shared!("step_overdue"), "No step waits for long to be looked at.";
    "job-end" Damage shared!("job_end"), "A job that is over says when it ended, and, unless it is a success, why.";
    "job-steps" Damage shared!("job_steps"), "A job is over exactly when all of its steps are.";
    "job-counts" Damage OWN, "A job counts its steps right, state by state.";
    "job-data" Damage OWN, "What the columns of a job say is what its data says.";
    "job-input" Damage OWN, "What a job was given can be read.";
    "job-definition" Damage shared!("job_definition"), "The text of every job's task is on record.";
    "definition-text" Damage OWN, "The text of a task, and the settings with which it was stored, can be read.";
    "job-parent" Damage shared!("job_parent"), "The step that began a job is on record, or was deleted for its age.";
    "step-job" Damage shared!("step_job"), "Every step belongs to a job, or to one that is being deleted.";
    "step-places" Damage shared!("step_places"), "The steps of a job stand side by side, from the first place on.";
    "step-data" Damage OWN, "What the columns of a step say is what its data says.";
    "step-child" Damage shared!("step_child"), "A step that waits for a job of its own has one.";
    "step-attempt" Damage shared!("step_attempt"), "A step that may be running has one current attempt with worker and fence, and a step that cannot has none.";
    "step-current" Damage shared!("step_current"), "The current attempt of a step is on record as its own, and is open.";
    "attempt-step" Damage shared!("attempt_step"), "Every attempt belongs to a step, or to a job that is being deleted.";
    "attempt-open" Damage shared!("attempt_open"), "An attempt that is open is the current one of its step.";
    "attempt-end" Damage shared!("attempt_end"), "An attempt that is over says when it ended, and only such a one is over for certain.";
    "attempt-number" Damage shared!("attempt_number"), "The attempts of a step are numbered from 1, without gaps.";
    "attempt-worker" Damage shared!("attempt_worker"), "The worker of what may still run is on record.";
    "fence-once" Damage shared!("fence_once"), "No two attempts have the same fence.";
    "fence-order" Damage shared!("fence_order"), "A later attempt of a step has a higher fence.";
    "fence-ahead" Damage shared!("fence_ahead"), "No fence is ahead of all that were given.";
    "worker-epoch" Damage shared!("worker_epoch"), "No attempt is on a link that its worker never had.";
    "worker-departed" Damage shared!("worker_departed"), "No worker that was deleted is on record.";
    "server-generation" Damage shared!("server_generation"), "Every start of a server has a generation of its own, within the counter.";
    "log-overlap" Damage shared!("log_overlap"), "The pieces of a log follow each other.";
    "log-lines" Damage shared!("log_lines"), "Every line of a log is stored, or said to be missing.";
    "log-blocks" Damage OWN, "Every piece of a log can be read, and has the lines that it says.";
    "log-state" Damage shared!("log_state"), "A log that has lines says how far it has got.";
    "log-end" Damage shared!("log_end"), "A log that is whole reaches its last line, and is not waited for.";
    "log-waits" Damage shared!("log_waits"), "The log of an attempt that is over is closed, or has a time by which it is.";
    "event-job" Damage shared!("event_job"), "Every line of the history belongs to a job, or to one that was deleted.";
    "event-state" Damage shared!("event_state"), "The history of a job, and of each step, ends where that is.";
    "event-number" Damage OWN, "No event has a number that was never given.";
    "outbox-due" Damage shared!("outbox_due"), "What is to be told outside is due, delivered, or given up with a reason.";
    "idempotency-job" Damage shared!("idempotency_job"), "The job that a key stands for is on record.";
    "lineage-job" Damage shared!("lineage_job"), "A job that goes on for another is on record, and so is the other, unless it was deleted for its age.";
    "lineage-line" Damage shared!("lineage_line"), "Jobs that go on for each other stand in one line, one after the other.";
    "slot-admission" Damage shared!("slot_admission"), "No job that waits for its concurrency group has begun, and none without a group was admitted.";
    "slot-group" Damage shared!("slot_group"), "A concurrency group knows who was admitted last.";
    "trigger-next" Damage shared!("trigger_next"), "A trigger that has a next time is due then, unless it is paused or has a problem.";
    "trigger-job" Damage shared!("trigger_job"), "The last job of a trigger is on record, or was deleted for its age.";
    "deleted-job" Damage shared!("doomed_job"), "No job that was deleted is on record.";
    "quarantine" Doubt shared!("quarantine"), "No event was set aside because it could not be handled.";
    "mark-ahead" Doubt shared!("mark_ahead"), "The last mark is not ahead of the clock.";
}

impl Check {
    /// What this store is asked; none where there is nothing to ask.
    pub fn text(&self, dialect: &Dialect) -> Option<&'static str> {
        self.text.or_else(|| dialect.own.iter().find(|(name, _)| *name == self.name).map(|(_, text)| *text))
    }

    pub fn found(self, count: u64, first: Vec<Offender>, took: Duration) -> Finding {
        Finding { check: self, count, first, took }
    }

    /// The database could not even answer, since a value is not what it should be.
    pub fn unanswered(self, why: &str, took: Duration) -> Finding {
        let what = format!("it cannot be found out: {why}");
        self.found(1, vec![Offender { what, ..Offender::default() }], took)
    }
}

/// Rows whose data may be something that no statement can read. Each such statement ends with the first of them, and says not which.
#[derive(Debug)]
pub struct Texts {
    table: &'static str,
    /// Asks for all of them: the job, the step if it is one, and the text.
    pub rows: &'static str,
    key: &'static str,
    /// Where there are numbers that checks compare with columns.
    numbers: &'static [&'static str],
}

pub const TEXTS: &[Texts] = &[
    Texts {
        table: "jobs",
        rows: "SELECT id, CAST(NULL AS bigint), data FROM jobs ORDER BY id",
        key: "id",
        numbers: &["/started_at", "/ended_at", "/admitted_at", "/check/at"],
    },
    Texts {
        table: "steps",
        rows: "SELECT job_id, ix, data FROM steps ORDER BY job_id, ix",
        key: "job_id, ix",
        numbers: &["/check/at"],
    },
];

/// More are counted, and not told apart from what else a check would find.
const UNREADABLE_MAX: usize = 10_000;

/// Rows that nothing can read, to be left out where the rest is asked for.
#[derive(Debug, Default)]
pub struct Unreadable {
    found: Vec<(&'static Texts, Offender)>,
    more: u64,
}

impl Unreadable {
    /// One row of `of`; its text, if it is one.
    pub fn look(&mut self, of: &'static Texts, job: Uuid, step: Option<i64>, text: Option<&str>) {
        let Some(why) = text.map_or(Some("it is no text".to_owned()), |text| of.why_not(text)) else { return };
        if self.found.len() >= UNREADABLE_MAX {
            self.more += 1;
            return;
        }
        let what = format!("its data cannot be read: {why}");
        self.found.push((of, Offender { job: Some(job), step, other: None, what }));
    }

    /// Whether the rest can be asked for.
    pub fn can_be_left_out(&self) -> bool {
        !self.found.is_empty() && self.more == 0
    }

    /// The tables without them, to stand before a statement.
    fn tables_without(&self, dialect: &Dialect) -> String {
        let mut tables = String::new();
        for of in TEXTS {
            let rows = self.found.iter().filter(|(other, _)| other.table == of.table);
            let keys: Vec<String> = rows.map(|(_, offender)| offender.key(dialect)).collect();
            if !keys.is_empty() {
                let Texts { table, key, .. } = of;
                let _ = write!(
                    tables,
                    ", {table} AS MATERIALIZED (SELECT * FROM {}{table} WHERE ({key}) NOT IN (VALUES {}))",
                    dialect.schema,
                    keys.join(", ")
                );
            }
        }
        tables
    }

    /// What a check comes to that could not be answered with them: they are named first, and then what else it has found.
    pub fn beside(&self, rest: Finding, limit: usize) -> Finding {
        let Finding { check, count, first, took } = rest;
        let all = self.found.iter().map(|(_, offender)| offender.clone()).chain(first);
        check.found(count + self.found.len() as u64 + self.more, all.take(limit).collect(), took)
    }
}

impl Texts {
    /// Why it cannot be read; none if it can.
    fn why_not(&self, text: &str) -> Option<String> {
        let data: serde_json::Value = match serde_json::from_str(text) {
            Ok(data) => data,
            Err(error) => return Some(error.to_string()),
        };
        let is_number = |value: &serde_json::Value| match value {
            serde_json::Value::Null => true,
            serde_json::Value::String(text) => text.parse::<i64>().is_ok(),
            other => other.as_i64().is_some(),
        };
        let wrong = |place: &&&str| data.pointer(place).is_some_and(|value| !is_number(value));
        self.numbers.iter().find(wrong).map(|place| format!("`{place}` is no number"))
    }
}

impl Offender {
    fn key(&self, dialect: &Dialect) -> String {
        let job = (dialect.id)(self.job.unwrap_or_default());
        self.step.map_or_else(|| format!("({job})"), |step| format!("({job}, {step})"))
    }
}

/// One statement: the first `limit` offenders, each with how many there are in all. It sees none of `without`.
pub fn statement(text: &str, known: &Known, dialect: &Dialect, limit: usize, without: &Unreadable) -> String {
    let marked = known.marked.unwrap_or(known.clock);
    let now = known.clock.max(marked);
    let deleted = known.deleted.map_or(Uuid::nil(), |before| JobId::lowest_at(before).0);
    let (latest, overdue) = (now + LOOK_AGAIN + SLACK, marked - LOOK_AGAIN);
    let mut whole = String::from("WITH known AS (SELECT ");
    for (name, time) in
        [("clock", known.clock), ("marked", marked), ("now", now), ("latest", latest), ("overdue", overdue)]
    {
        let _ = write!(whole, "CAST({} AS bigint) AS {name}, ", time.0);
    }
    let _ = writeln!(whole, "{} AS deleted){}", (dialect.id)(deleted), without.tables_without(dialect));
    let _ = write!(whole, "SELECT {}, count(*) OVER () FROM (\n{text}\n) found LIMIT {limit}", dialect.columns);
    whole
}

/// What retention wrote under [`RETENTION_KEY`].
pub fn deleted_before(text: &str) -> Option<Time> {
    let mark: serde_json::Value = serde_json::from_str(text).ok()?;
    mark.get("before")?.as_i64().map(Time)
}

/// What is said of a database that an older build made.
pub fn behind(missing: &[u32]) -> String {
    let versions: Vec<String> = missing.iter().map(ToString::to_string).collect();
    format!(
        "it lacks version {} of the schema; run `bowline db migrate`, or start a server of this build on it",
        versions.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use engine::attempt::AttemptState;
    use engine::deadline::Action;
    use engine::{JobState, StateName};

    use super::*;

    fn text_of(name: &str) -> &'static str {
        CHECKS.iter().find(|check| check.name == name).and_then(|check| check.text).expect("a shared text")
    }

    #[test]
    fn names_are_told_apart() {
        let names: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), CHECKS.len());
    }

    #[test]
    fn every_file_is_a_check() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("checks");
        for entry in std::fs::read_dir(folder).expect("the folder of checks") {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a text");
            assert!(CHECKS.iter().any(|check| check.text == Some(&text)), "{}", path.display());
        }
    }

    /// A word that the engine learns must be learnt here as well.
    #[test]
    fn all_words_are_known() {
        let has = |name: &str, word: &str| assert!(text_of(name).contains(&format!("'{word}'")), "{name}: {word}");
        JobState::ALL.into_iter().for_each(|state| has("job-words", state.word()));
        StateName::ALL.into_iter().for_each(|state| has("step-words", state.word()));
        AttemptState::ALL.into_iter().for_each(|state| has("attempt-words", state.word()));
        for action in Action::ALL {
            has("job-words", action.word());
            has("step-words", action.word());
        }
    }

    #[test]
    fn data_that_no_statement_reads_is_told_from_other() {
        let [jobs, steps] = TEXTS else { panic!("two tables") };
        for good in ["{}", "7", r#"{"started_at":null,"check":{"at":"17"}}"#, r#"{"started_at":-5,"check":7}"#] {
            assert_eq!(jobs.why_not(good), None, "{good}");
        }
        for bad in ["", "{nonsense", r#"{"started_at":1.5}"#, r#"{"check":{"at":"soon"}}"#] {
            assert!(jobs.why_not(bad).is_some(), "{bad}");
        }
        assert_eq!(steps.why_not(r#"{"started_at":1.5}"#), None, "steps have none");
    }

    #[test]
    fn the_retention_mark_is_read() {
        assert_eq!(deleted_before(r#"{"before":17}"#), Some(Time(17)));
        assert_eq!(deleted_before("nonsense"), None);
    }
}
