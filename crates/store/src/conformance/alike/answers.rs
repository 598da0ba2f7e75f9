//! Everything that can be asked, of both stores.

use engine::{AttemptId, JobId, StepIx, Time};

use super::Outcome;
use crate::conformance::scene::{after, attempt_id, id, job_id, worker_id};
use crate::{JobFilter, Store, Wanted};

/// What there may be to ask for, and a little more.
pub(super) struct Known {
    pub(super) jobs: u64,
    pub(super) attempts: u64,
    pub(super) workers: u64,
    pub(super) now: Time,
}

const KEYS: [&str; 3] = ["a", "b", "none"];

/// Asks both the same, and compares.
macro_rules! same {
    ($one:expr, $other:expr, $method:ident($($argument:expr),*)) => {{
        let (one, other) = (Outcome::of($one.$method($($argument),*)), Outcome::of($other.$method($($argument),*)));
        assert_eq!(one, other, "{}{:?}", stringify!($method), ($(&$argument,)*));
    }};
}

pub(super) fn assert_alike(one: &mut dyn Store, other: &mut dyn Store, known: &Known) {
    checks(one, other, known);
    for n in 0..=known.jobs + 1 {
        job(one, other, job_id(n));
    }
    for n in 0..=known.attempts + 1 {
        attempt(one, other, attempt_id(n));
    }
    many(one, other, known);
    lists(one, other, known);
    groups(one, other, known);
    events(one, other, known);
    access(one, other, known);
}

fn checks(one: &mut dyn Store, other: &mut dyn Store, known: &Known) {
    same!(one, other, next_check());
    same!(one, other, next_outbox());
    same!(one, other, queued());
    same!(one, other, held());
    same!(one, other, held_steps());
    let (one_reader, other_reader) = (one.reader(), other.reader());
    same!(one_reader, other_reader, triggers());
    for id in ["a", "b", "nobody"] {
        same!(one_reader, other_reader, trigger(id));
    }
    for now in [after(0), known.now, after(300), after(5_000), Time::MAX] {
        for limit in [0, 1, 3, 100] {
            same!(one, other, due(now, limit));
            same!(one, other, due_logs(now, limit));
            same!(one, other, due_triggers(now, limit));
            same!(one, other, due_outbox(now, limit));
            same!(one_reader, other_reader, stale(now, limit));
        }
    }
}

fn job(one: &mut dyn Store, other: &mut dyn Store, id: JobId) {
    same!(one, other, open_kin(id, 2));
    same!(one, other, load_job(id));
    let (one, other) = (one.reader(), other.reader());
    same!(one, other, job(id));
    same!(one, other, attempts(id));
    same!(one, other, unconfirmed(id));
    same!(one, other, lineage(id));
    same!(one, other, children(id, 2));
    same!(one, other, hooks(id, 2));
    same!(one, other, outbox_of(id, 2));
    same!(one, other, family(id, 1));
    same!(one, other, family(id, 100));
    same!(one, other, definition_of(id));
    same!(one, other, weight(id));
    same!(one, other, old_jobs(Some(id), job_id(100), 2));
    for ix in 0..3 {
        same!(one, other, step(id, StepIx(ix)));
    }
    for name in ["a", "b", "c[1]", "nobody"] {
        same!(one, other, step_named(id, name));
    }
    same!(one, other, events(Some(id), 0, 1_000));
    same!(one, other, events(Some(id), 5, 2));
}

fn attempt(one: &mut dyn Store, other: &mut dyn Store, id: AttemptId) {
    same!(one, other, place_of(id));
    let (one, other) = (one.reader(), other.reader());
    same!(one, other, attempt(id));
    same!(one, other, log_state(id));
    same!(one, other, log_states(&[id, attempt_id(1), attempt_id(2)]));
    for from in [0, 1, 4, 9, u64::MAX] {
        for bytes in [0, 5, usize::MAX] {
            same!(one, other, log_chunks(id, from, bytes));
        }
    }
    for (from, to, limit) in [(0, u64::MAX, 100), (0, u64::MAX, 2), (2, 5, 100), (5, 2, 100)] {
        same!(one, other, log_marks(id, from, to, limit));
    }
    same!(one, other, beats(id));
}

/// What is asked for at once is what is asked for one by one.
fn many(one: &mut dyn Store, other: &mut dyn Store, known: &Known) {
    let jobs: Vec<JobId> = (0..=known.jobs + 1).map(job_id).collect();
    let by_id = |store: &mut dyn Store| {
        let mut found = store.load_jobs(&jobs)?;
        found.sort_by_key(|stored| stored.job.id);
        Ok(found)
    };
    assert_eq!(Outcome::of(by_id(one)), Outcome::of(by_id(other)), "{jobs:?}");
    let open = |store: &mut dyn Store| {
        let mut open = store.open_among(&jobs)?;
        open.sort();
        Ok(open)
    };
    assert_eq!(Outcome::of(open(one)), Outcome::of(open(other)), "{jobs:?}");
    let keys = [900, 901].into_iter().flat_map(|token| KEYS.map(|key| (id(token), key.to_owned())));
    let attempts = (0..=known.attempts + 1).map(attempt_id);
    let wanted = Wanted { keys: keys.collect(), attempts: attempts.collect(), record: None };
    same!(one, other, look_ahead(&wanted));
}

fn lists(one: &mut dyn Store, other: &mut dyn Store, known: &Known) {
    let (one, other) = (one.reader(), other.reader());
    same!(one, other, last_job());
    same!(one, other, old_jobs(None::<JobId>, job_id(100), 100));
    same!(one, other, old_jobs(None::<JobId>, job_id(3), 100));
    same!(one, other, strays(after(4_000)));
    for limit in [0, 1, 100] {
        same!(one, other, old_logs(None::<AttemptId>, attempt_id(100), limit));
        same!(one, other, old_logs(Some(attempt_id(1)), attempt_id(100), limit));
    }
    same!(one, other, dead_outbox(2));
    same!(one, other, outbox_counts());
    for n in 0..7 {
        same!(one, other, outbox(id(n)));
    }
    same!(one, other, job_counts());
    same!(one, other, wanted_artifacts(&["ab".to_owned(), String::new()]));
    for prefix in ["", "0190", "01900000-0001", &job_id(2).to_string(), "x"] {
        same!(one, other, jobs_by_prefix(prefix, 3));
    }
    for state in [None, Some("pending"), Some("running"), Some("success"), Some("no such")] {
        for task in [None, Some("plain"), Some("no such")] {
            for (before, limit) in [(None, 100), (None, 1), (Some(job_id(known.jobs)), 2)] {
                let (state, task) = (state.map(str::to_owned), task.map(str::to_owned));
                let filter = JobFilter { state, task, limit, before };
                same!(one, other, jobs(&filter));
            }
        }
    }
}

fn groups(one: &mut dyn Store, other: &mut dyn Store, known: &Known) {
    let (one, other) = (one.reader(), other.reader());
    for ended_after in [Time(0), known.now, after(300)] {
        same!(one, other, stray_slots(ended_after));
        for group in ["g", "h", "nobody"] {
            same!(one, other, slots(group, ended_after));
        }
    }
    for group in ["g", "h", "nobody"] {
        same!(one, other, last_admitted(group));
        same!(one, other, line(group, 1));
        same!(one, other, line(group, 100));
    }
    for (name, limit) in [("", 100), ("", 1), ("g", 100), ("z", 100)] {
        same!(one, other, lines(name, limit));
        same!(one, other, groups(name, limit));
    }
}

fn events(one: &mut dyn Store, other: &mut dyn Store, known: &Known) {
    for (after, limit) in [(0, 10_000), (known.jobs, 3), (u64::MAX, 10)] {
        same!(one, other, changed_since(after, limit));
    }
    let (one, other) = (one.reader(), other.reader());
    same!(one, other, last_event());
    for (after, limit) in [(0, 10_000), (known.jobs, 3), (u64::MAX, 10)] {
        same!(one, other, events(None::<JobId>, after, limit));
    }
}

fn access(one: &mut dyn Store, other: &mut dyn Store, known: &Known) {
    for n in 0..=known.workers + 1 {
        same!(one, other, worker(worker_id(n)));
    }
    let (one, other) = (one.reader(), other.reader());
    same!(one, other, workers());
    same!(one, other, servers());
    same!(one, other, leases());
    same!(one, other, tokens());
    same!(one, other, tasks());
    same!(one, other, task_stamps());
    same!(one, other, secrets());
    for name in ["SECRET_0", "SECRET_1", "NONE"] {
        same!(one, other, secret(name));
    }
    same!(one, other, breaker());
    same!(one, other, hearing());
    for n in 0..=u8::try_from(known.workers).unwrap_or(u8::MAX) {
        same!(one, other, worker_by_credential(&[n; 32]));
        same!(one, other, departed_by_credential(&[n; 32]));
        same!(one, other, departed(worker_id(u64::from(n))));
        same!(one, other, token_by_hash(&[n; 32]));
    }
    for key in KEYS {
        same!(one, other, idempotency(id(900), key));
        same!(one, other, idempotency(id(901), key));
        same!(one, other, meta(key));
    }
}
