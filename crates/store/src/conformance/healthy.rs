//! A database with something of everything in it, all of it sound: what the checks of [`crate::check`] must find nothing wrong with.

use std::time::Duration;

use engine::definition::{Effects, StepDef};
use engine::event::NoReturn;
use engine::retry::RetryPolicy;
use engine::{Epoch, Event, Heard, JobId, StepIx, Time};

use super::access::{enrolled, hello, say_hello};
use super::children::{begun_by, calling};
use super::retention::version;
use super::scene::{
    FIRST, Life, T0, after, approval, attempt_id, commit, fan_out, grouped, id, job_id, plain, step, task, worker_id,
};
use super::triggers::{trigger, written};
use crate::rows::{
    HearingRow, IdempotencyRow, LineageRow, OutboxMove, OutboxRow, ServerId, ServerRow, TriggerRow, WorkerHello,
};
use crate::{Admission, Batch, LogAppend, LogClose, LogDeadline, LogMark, Mark, Piece, Store};

/// When somebody looks at it.
pub const NOW: Time = Time(T0.0 + 600_000_000);

/// Jobs below this number were deleted for their age.
const KEPT_FROM: u64 = 10;

/// Every job, step and attempt is the engine's own work, and all else is written as the ledger writes it.
pub fn fill(store: &mut dyn Store) {
    fleet(store);
    jobs_that_are_over(store);
    jobs_that_run(store);
    jobs_that_wait(store);
    families(store);
    groups(store);
    logs(store);
    words_outside(store);
    triggers(store);
    a_job_that_goes(store);
}

fn fleet(store: &mut dyn Store) {
    for n in [1, 2, 3] {
        enrolled(store, n);
        say_hello(store, &WorkerHello { kind: "static", server: ServerId(id(801)), ..hello(n) }, after(1));
    }
    store.depart(worker_id(3), after(50), after(60), None).expect("a write");
    let used_epochs = vec![(worker_id(1), Epoch(1))];
    let server = ServerRow {
        id: ServerId(id(801)),
        generation: 0,
        address: "127.0.0.1:7411".to_owned(),
        started_at: T0,
        beat_at: T0,
        beat_heard: Heard(T0.0),
        left_at: None,
    };
    store.register_server(&server, T0).expect("a write");
    let heard = Heard(NOW.0);
    let row = HearingRow {
        mark_at: NOW,
        deaf_us: 0,
        stretch_from: heard,
        unsettled_since: None,
        verdicts_from: heard,
        alarmed: false,
    };
    let hearing = Some(Mark { row, expected: None });
    commit(store, &Batch { now: NOW, used_epochs, hearing, ..Batch::default() });
    assert_eq!(store.reserve_fences(100, 0).expect("a write"), 1);
    // As retention writes it: ids of jobs begin with milliseconds.
    let (oldest, _) = job_id(KEPT_FROM).0.as_u64_pair();
    let before = (oldest >> 16) * 1_000;
    store.set_meta(crate::check::RETENTION_KEY, &format!("{{\"before\":{before}}}")).expect("a write");
}

fn jobs_that_are_over(store: &mut dyn Store) {
    Life::submit(store, 10, &plain()).run_to_end(store, 10, 0);
    Life::submit(store, 11, &plain()).run_to_end(store, 11, 3);
    let mut called_off = Life::submit(store, 12, &plain());
    called_off.apply(store, &Event::Cancel { by: "ada".to_owned(), force: false });
}

fn jobs_that_run(store: &mut dyn Store) {
    Life::submit(store, 20, &plain()).start(store, FIRST, 20, 1);
    let mut cut_off = Life::submit(store, 21, &plain());
    let ticket = cut_off.start(store, FIRST, 21, 2);
    cut_off.lose_link(store, ticket);
    let mut told = Life::submit(store, 22, &plain());
    told.start(store, FIRST, 22, 1);
    told.apply(store, &Event::Cancel { by: "ada".to_owned(), force: false });
    // Given up without proof, and handed over again.
    let safe = task("safe", vec![StepDef { effects: Effects::None, ..step("only") }]);
    let mut repeated = Life::submit(store, 23, &safe);
    let ticket = repeated.start(store, FIRST, 23, 2);
    repeated.apply(store, &Event::NoReturn { ticket, epoch: Epoch(1), why: NoReturn::SaidSo });
    repeated.start(store, FIRST, 24, 1);
    // Under way by a record that was put back to an earlier state.
    let reads = StepDef { effects: Effects::None, ..step("reads") };
    let mut restored = Life::submit(store, 25, &task("restored", vec![step("writes"), reads]));
    restored.start(store, FIRST, 25, 1);
    restored.start(store, StepIx(1), 26, 1);
    restored.apply(store, &Event::Restored { at: after(90) });
}

fn jobs_that_wait(store: &mut dyn Store) {
    Life::submit(store, 30, &task("asked", vec![approval("ship")]));
    Life::submit(store, 31, &plain()).offer(store, FIRST, 31, 1);
    let retry = RetryPolicy { attempts: 2, delay: Duration::from_secs(30), ..RetryPolicy::default() };
    let mut again = Life::submit(store, 32, &task("again", vec![StepDef { retry, ..step("only") }]));
    let ticket = again.start(store, FIRST, 32, 1);
    again.end(store, ticket, 1);
}

fn families(store: &mut dyn Store) {
    let parent = Life::submit(store, 40, &calling());
    let (_, child) = begun_by(&parent, 41);
    commit(store, &child);
    let mut many = Life::submit(store, 42, &task("many", vec![fan_out("each", 3)]));
    many.start(store, StepIx(1), 42, 1);
    // One goes on for a job that failed, one for a job that was deleted.
    for (n, continues, number) in [(43, 11, 1), (44, 2, 1)] {
        let (_, mut batch) = Life::draft(n, &plain(), after(n));
        let (job, continues, at) = (job_id(n), job_id(continues), after(n));
        let root = continues;
        batch.lineage.push(LineageRow {
            job,
            continues,
            root,
            number,
            resolves: false,
            how: "retry",
            by: "ada".to_owned(),
            at,
        });
        let (key, token) = (format!("key {n}"), id(900));
        batch.idempotency.push(IdempotencyRow { key, token, request_hash: [7; 32], job, created_at: at });
        commit(store, &batch);
    }
}

fn groups(store: &mut dyn Store) {
    let mut admitted = Life::submit(store, 50, &grouped("release", 0));
    let (changes, mut batch) = admitted.change(&Event::Admit { reason: "there is room".to_owned() });
    batch.admissions.push(Admission {
        group: "release".to_owned(),
        expected: None,
        jobs: vec![job_id(50)],
        after: vec![],
    });
    commit(store, &batch);
    admitted.job.absorb(&changes);
    admitted.start(store, FIRST, 50, 2);
    Life::submit(store, 51, &grouped("release", 0));
}

fn logs(store: &mut dyn Store) {
    let piece = |attempt: u64, first_seq: u64, last_seq: u64, missing: u64, complete: bool| {
        let attempt = attempt_id(attempt);
        let blocks = if first_seq > last_seq { Vec::new() } else { vec![9] };
        LogAppend { attempt, first_seq, last_seq, blocks, missing, complete }
    };
    let lines = |store: &mut dyn Store, logs: Vec<LogAppend>| {
        commit(store, &Batch { logs, ..Batch::default() });
    };
    lines(store, vec![piece(10, 1, 3, 0, false), piece(10, 4, 5, 0, true)]);
    // One with a gap that is marked, and another that is only announced.
    let mark = |after_seq, missing| {
        let (attempt, at, text) = (attempt_id(20), after(99), "--- gone ---".to_owned());
        LogMark { attempt, after_seq, at, missing, text }
    };
    lines(store, vec![piece(20, 1, 2, 0, false)]);
    commit(store, &Batch { marks: vec![mark(2, 4)], logs: vec![piece(20, 7, 9, 4, false)], ..Batch::default() });
    commit(store, &Batch { marks: vec![mark(9, 5)], ..Batch::default() });
    // One that is waited for, one that was closed without its end, one whose lines went for their age.
    let waits = |attempt: u64, end_seq| LogDeadline { attempt: attempt_id(attempt), close_at: after(700), end_seq };
    let log_deadlines = vec![waits(11, Some(8)), waits(32, Some(4))];
    commit(store, &Batch { logs: vec![piece(11, 1, 6, 0, false)], log_deadlines, ..Batch::default() });
    let text = Some("--- 4 log lines were not received: worker lost ---".to_owned());
    let log_closes = vec![LogClose { attempt: attempt_id(32), after_seq: 0, text }];
    commit(store, &Batch { log_closes, ..Batch::default() });
    lines(store, vec![piece(23, 1, 4, 0, false), piece(23, 5, 6, 0, true)]);
    let (rows, log_bytes) = (1, 1 << 20);
    assert!(store.drop_log(attempt_id(23), after(300), Piece { rows, log_bytes }, None).expect("a write").more);
}

fn words_outside(store: &mut dyn Store) {
    let word = |n: u64| {
        let (job, body) = (job_id(11), "{}".to_owned());
        OutboxRow { id: id(n), job, kind: "webhook", body, created_at: after(11) }
    };
    commit(store, &Batch { outbox: vec![word(61), word(62), word(63)], ..Batch::default() });
    let moved = |n: u64, delivered_at: Option<Time>, error: Option<String>| {
        let (id, next_at) = (id(n), None);
        OutboxMove { id, expected: 0, tries: 1, next_at, delivered_at, error }
    };
    let outbox_moves = vec![moved(62, Some(after(70)), None), moved(63, None, Some("nobody is there".to_owned()))];
    commit(store, &Batch { outbox_moves, ..Batch::default() });
}

fn triggers(store: &mut dyn Store) {
    let due =
        TriggerRow { last_job: Some(job_id(10)), last_at: Some(after(10)), ..trigger("due", 1, Some(after(800))) };
    let paused = TriggerRow {
        planned_at: Some(after(800)),
        paused_at: Some(after(5)),
        last_job: Some(job_id(3)),
        ..trigger("paused", 1, None)
    };
    let problem = Some("its task has errors".to_owned());
    let broken = TriggerRow { planned_at: Some(after(800)), last_error: problem, ..trigger("broken", 1, None) };
    for row in [due, paused, broken, trigger("called", 1, None)] {
        commit(store, &written(row, None));
    }
}

/// Its header is gone, and some of its rows.
fn a_job_that_goes(store: &mut dyn Store) {
    let mut old = Life::submit(store, 4, &task("old", vec![step("one"), step("two")]));
    for (ix, attempt) in [(0, 4), (1, 5)] {
        let ticket = old.start(store, StepIx(ix), attempt, 1);
        let (attempt, blocks) = (attempt_id(attempt), vec![9]);
        let append = |first_seq, last_seq| LogAppend {
            attempt,
            first_seq,
            last_seq,
            blocks: blocks.clone(),
            missing: 0,
            complete: last_seq > 3,
        };
        commit(store, &Batch { logs: vec![append(1, 3), append(4, 6)], ..Batch::default() });
        old.end(store, ticket, 0);
    }
    let gone: Vec<JobId> = store.doom(&[version(&old)], after(400), None).expect("a write");
    assert_eq!(gone, [old.job.id]);
    let piece = Piece { rows: 1, log_bytes: 1 << 20 };
    assert!(store.clear_doomed(piece, None).expect("a write").more, "something of it is left");
}
