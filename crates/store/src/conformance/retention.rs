//! What is old goes: as a whole for everybody who looks, and a little at a time for the database.

use engine::JobId;
use uuid::Uuid;

use super::Fixture;
use super::access::{enrolled, hello};
use super::scene::{FIRST, Life, after, attempt_id, commit, id, job_id, plain, step, task, worker_id};
use crate::retention::removed_word;
use crate::rows::{IdempotencyRow, LineageRow, OutboxMove, OutboxRow, QuarantineRow};
use crate::{Batch, Cleared, LogAppend, LogDeadline, OldJob, Piece, Store, Strays};

const MUCH: Piece = Piece { rows: 10_000, log_bytes: 1_000_000 };
const ALL: JobId = JobId(Uuid::max());

pub fn a_job_that_goes_is_gone_at_once_and_its_rows_in_pieces(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    life.run_to_end(store, 1, 0);
    lines(store, 1, 1, 4, true);
    let key = IdempotencyRow {
        key: "once".to_owned(),
        token: id(900),
        request_hash: [1; 32],
        job: job_id(1),
        created_at: after(1),
    };
    commit(store, &Batch { idempotency: vec![key], ..Batch::default() });
    let reader = store.reader();
    let weight = reader.weight(job_id(1)).expect("a look");
    assert_eq!((weight.steps, weight.attempts, weight.log_lines, weight.log_bytes), (1, 1, 4, 4));
    assert!(weight.events > 3, "{weight:?}");

    assert_eq!(store.doom(&[version(&life)], after(100), None).expect("a write"), [job_id(1)]);
    assert!(store.load_job(job_id(1)).expect("a read").is_none());
    assert_eq!(store.place_of(attempt_id(1)).expect("a read"), None, "what is left of it is nobody's");
    assert_eq!(reader.attempt(attempt_id(1)).expect("a look"), None);
    assert_eq!(reader.idempotency(id(900), "once").expect("a look"), None);
    assert_eq!(reader.last_job().expect("a look"), None);
    assert_eq!(store.doom(&[version(&life)], after(100), None).expect("a write"), [], "it is gone already");

    let mut cleared = store.clear_doomed(Piece { rows: 1, ..MUCH }, None).expect("a write");
    assert!(cleared.more, "one row is not all: {cleared:?}");
    for _ in 0..100 {
        if !cleared.more {
            break;
        }
        cleared.add(store.clear_doomed(Piece { rows: 1, ..MUCH }, None).expect("a write"));
    }
    assert_eq!(cleared, weight);
    assert_eq!(reader.weight(job_id(1)).expect("a look"), Cleared::default());
    assert_eq!(reader.events(Some(job_id(1)), 0, 100).expect("a look"), []);
    assert_eq!(reader.log_state(attempt_id(1)).expect("a look"), crate::read::LogState::default());
    assert_eq!(reader.log_chunks(attempt_id(1), 1, 1_000).expect("a look"), []);
    assert_eq!(store.clear_doomed(MUCH, None).expect("a write"), Cleared::default());
}

pub fn only_what_is_over_and_has_not_moved_goes(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let open = Life::submit(store, 1, &plain());
    let mut over = Life::submit(store, 2, &plain());
    over.run_to_end(store, 1, 0);
    let (_, moved) = version(&over);
    let asked = [version(&open), (job_id(2), moved + 1), (job_id(3), 1)];
    assert_eq!(store.doom(&asked, after(100), None).expect("a write"), []);
    open.assert_stored(store);
    over.assert_stored(store);
}

pub fn numbers_of_events_that_went_never_return(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    life.run_to_end(store, 1, 0);
    let reader = store.reader();
    let last = reader.last_event().expect("a look");
    store.doom(&[version(&life)], after(100), None).expect("a write");
    store.clear_doomed(MUCH, None).expect("a write");
    assert_eq!(reader.last_event().expect("a look"), last, "whoever remembers it takes nothing for lost");
    let (_, batch) = Life::draft(2, &plain(), after(200));
    let numbers = commit(store, &batch).event_ids;
    assert!(numbers.iter().all(|number| number.is_some_and(|number| number > last)), "{numbers:?}");
}

pub fn all_that_speaks_against_it_is_said(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let open = Life::submit(store, 1, &plain());
    let mut over = Life::submit(store, 2, &plain());
    over.run_to_end(store, 1, 1);
    let ended = over.job.header.ended_at;
    let row = |store: &mut dyn Store, n: u64| {
        let all = store.reader().old_jobs(None, ALL, 100).expect("a look");
        all.into_iter().find(|job| job.id == job_id(n)).expect("the job")
    };
    let plainly = OldJob {
        id: job_id(2),
        version: over.job.header.version,
        open: false,
        ended_at: ended,
        last_event_at: ended,
        in_doubt: false,
        log_open: false,
        undelivered: false,
        continues: None,
        carried_on: false,
    };
    assert_eq!(row(store, 2), plainly);
    assert!(row(store, 1).open && row(store, 1).ended_at.is_none());
    assert!(!row(store, 1).in_doubt);

    // An attempt that may still run.
    let mut lost = Life::submit(store, 3, &plain());
    let ticket = lost.start(store, FIRST, 2, 1);
    assert!(row(store, 3).in_doubt, "what runs is not over");
    lost.end(store, ticket, 0);
    assert!(!row(store, 3).in_doubt);

    // A log that is waited for.
    let wait = LogDeadline { attempt: attempt_id(1), close_at: after(500), end_seq: None };
    commit(store, &Batch { log_deadlines: vec![wait], ..Batch::default() });
    assert_eq!(row(store, 2), OldJob { log_open: true, ..plainly });
    lines(store, 1, 1, 1, true);
    assert_eq!(row(store, 2), plainly);

    // A word that is on its way.
    let letter = OutboxRow { id: id(7), job: job_id(2), kind: "webhook", body: String::new(), created_at: after(9) };
    commit(store, &Batch { outbox: vec![letter], ..Batch::default() });
    assert_eq!(row(store, 2), OldJob { undelivered: true, ..plainly });
    let delivered_at = Some(after(10));
    let there = OutboxMove { id: id(7), expected: 0, tries: 1, next_at: None, delivered_at, error: None };
    commit(store, &Batch { outbox_moves: vec![there], ..Batch::default() });
    assert_eq!(row(store, 2), plainly);

    // One that goes on for it.
    let line = LineageRow {
        job: job_id(1),
        continues: job_id(2),
        root: job_id(2),
        number: 1,
        resolves: false,
        how: "retry",
        by: "ada".to_owned(),
        at: after(20),
    };
    commit(store, &Batch { lineage: vec![line], ..Batch::default() });
    assert_eq!(row(store, 2), OldJob { carried_on: true, ..plainly });
    assert_eq!(row(store, 1).continues, Some(job_id(2)));
    store.doom(&[version(&over)], after(100), None).expect("a write");
    assert_eq!(row(store, 1).continues, None, "what is off the record is not gone on for");
    assert_eq!(store.reader().lineage(job_id(1)).expect("a look").continues, Some(job_id(2)), "but it is known");

    let page = |after, until| {
        let jobs = store.reader().old_jobs(after, until, 1).expect("a look");
        jobs.iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!((page(None, ALL), page(Some(open.job.id), ALL)), (vec![job_id(1)], vec![job_id(3)]));
    assert_eq!(page(Some(job_id(1)), job_id(3)), []);
}

pub fn a_log_that_goes_leaves_a_word(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    let ticket = life.start(store, FIRST, 1, 1);
    lines(store, 1, 1, 3, false);
    lines(store, 1, 4, 5, false);
    life.end(store, ticket, 0);
    let reader = store.reader();
    let logs = |store: &mut dyn Store| store.reader().old_logs(None, attempt_id(99), 10).expect("a look");
    assert_eq!(logs(store).len(), 1);
    assert!(!logs(store)[0].complete && logs(store)[0].ended_at.is_some());
    assert_eq!(
        store.drop_log(attempt_id(1), after(100), MUCH, None).expect("a write"),
        Cleared::default(),
        "it is open"
    );
    lines(store, 1, 6, 6, true);
    let before = reader.log_state(attempt_id(1)).expect("a look");

    let first = store.drop_log(attempt_id(1), after(100), Piece { rows: 1, ..MUCH }, None).expect("a write");
    assert_eq!((first.log_lines, first.log_bytes, first.more), (3, 3, true));
    let words = || {
        let marks = reader.log_marks(attempt_id(1), 0, 99, 99).expect("a look");
        marks.into_iter().map(|mark| (mark.after_seq, mark.missing, mark.text)).collect::<Vec<_>>()
    };
    assert_eq!(words(), [(2, 3, removed_word(3))]);
    let rest = store.drop_log(attempt_id(1), after(101), MUCH, None).expect("a write");
    assert_eq!((rest.log_lines, rest.more), (3, false));
    assert_eq!(words(), [(5, 6, removed_word(6))], "one word for all of it");
    assert_eq!(reader.log_state(attempt_id(1)).expect("a look"), before, "the log stands where it stood");
    assert_eq!(logs(store), []);
    // Lines that come after all follow on what there was.
    lines(store, 1, 7, 8, true);
    assert_eq!(reader.log_chunks(attempt_id(1), 1, 1_000).expect("a look").len(), 1);

    // Of an attempt that nobody knows there is nobody to say it to.
    lines(store, 9, 1, 2, false);
    assert_eq!(logs(store).last().map(|log| (log.attempt, log.job)), Some((attempt_id(9), None)));
    assert_eq!(store.drop_log(attempt_id(9), after(100), MUCH, None).expect("a write").log_lines, 2);
    assert_eq!(reader.log_marks(attempt_id(9), 0, 99, 99).expect("a look"), []);
}

pub fn a_definition_goes_when_no_job_has_it(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let other = task("other", vec![step("a")]);
    let mut life = Life::submit(store, 1, &plain());
    let kept = Life::submit(store, 2, &other);
    life.run_to_end(store, 1, 0);
    assert_eq!(store.prune_definitions(None, 10, None).expect("a write"), (0, None));
    store.doom(&[version(&life)], after(100), None).expect("a write");
    let (first, next) = store.prune_definitions(None, 1, None).expect("a write");
    assert!(next.is_some(), "there are more");
    let (second, end) = store.prune_definitions(next, 10, None).expect("a write");
    assert_eq!((first + second, end), (1, None));
    kept.assert_stored(store);
    Life::submit(store, 3, &plain()).assert_stored(store);
}

pub fn what_belongs_to_no_job_goes_a_few_at_a_time(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    Life::submit(store, 1, &plain());
    let letter = |n: u64, job: u64| OutboxRow {
        id: id(n),
        job: job_id(job),
        kind: "webhook",
        body: String::new(),
        created_at: after(n),
    };
    let over = |n: u64, delivered_at| OutboxMove {
        id: id(n),
        expected: 0,
        tries: 1,
        next_at: None,
        delivered_at,
        error: None,
    };
    let aside = |job: Option<u64>, at: u64| QuarantineRow {
        job: job.map(job_id),
        at: after(at),
        event: "?".to_owned(),
        error: "it cannot be".to_owned(),
    };
    // 1 has its job; 2 is delivered, 3 given up, 4 on its way; 5 is too young.
    commit(
        store,
        &Batch {
            outbox: vec![letter(1, 1), letter(2, 71), letter(3, 70), letter(4, 72), letter(95, 73)],
            quarantine: vec![aside(None, 1), aside(Some(1), 2), aside(Some(70), 3), aside(None, 95)],
            ..Batch::default()
        },
    );
    let moves = vec![over(1, Some(after(5))), over(2, Some(after(5))), over(3, None), over(95, None)];
    commit(store, &Batch { outbox_moves: moves, ..Batch::default() });
    let before = after(90);
    let all = Strays { words: 2, quarantined: 2, more: false };
    assert_eq!(store.reader().strays(before).expect("a look"), all);
    let one = Strays { words: 1, quarantined: 1, more: true };
    assert_eq!(store.drop_strays(before, 1, None).expect("a write"), one);
    let left = [2, 3].map(|n| store.reader().outbox(id(n)).expect("a look").is_some());
    assert_eq!(left, [true, false], "in the order of their jobs");
    assert_eq!(store.drop_strays(before, 1, None).expect("a write"), one);
    assert_eq!(store.drop_strays(before, 1, None).expect("a write"), Strays::default());
    let left: Vec<bool> = [1, 2, 3, 4, 95].map(|n| store.reader().outbox(id(n)).expect("a look").is_some()).into();
    assert_eq!(left, [true, false, false, true, true]);
    let young = Strays { words: 1, quarantined: 1, more: false };
    assert_eq!(store.drop_strays(after(100), 10, None).expect("a write"), young, "each in its time");
}

pub fn a_worker_that_has_nothing_departs(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    enrolled(store, 1);
    enrolled(store, 2);
    commit(store, &Batch { now: after(50), hellos: vec![hello(1)], ..Batch::default() });
    let depart =
        |store: &mut dyn Store, since| store.depart(worker_id(1), after(since), after(900), None).expect("a write");
    assert!(!depart(store, 800), "it is connected");
    let epoch = engine::Epoch(1);
    commit(store, &Batch { left: vec![(worker_id(1), epoch, engine::Heard(1))], ..Batch::default() });
    assert!(!depart(store, 50), "it was seen since");
    let mut life = Life::submit(store, 1, &plain());
    let ticket = life.start(store, FIRST, 1, 1);
    assert!(!depart(store, 800), "it has something");
    life.end(store, ticket, 0);
    assert!(depart(store, 800));
    assert!(!depart(store, 800), "it is gone already");
    let reader = store.reader();
    assert!(store.worker(worker_id(1)).expect("a read").is_none());
    assert_eq!(reader.worker_by_credential(&[1; 32]).expect("a look"), None);
    assert_eq!(reader.departed(worker_id(1)).expect("a look"), Some(after(900)));
    assert_eq!(reader.departed_by_credential(&[1; 32]).expect("a look"), Some(worker_id(1)));
    assert_eq!(reader.departed(worker_id(2)).expect("a look"), None);
    assert!(store.depart(worker_id(2), after(800), after(900), None).expect("a write"), "it never said a word");
}

pub fn what_was_begun_goes_on_after_a_crash(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    let mut life = Life::submit(&mut *store, 1, &plain());
    life.run_to_end(&mut *store, 1, 0);
    store.doom(&[version(&life)], after(100), None).expect("a write");
    let first = store.clear_doomed(Piece { rows: 2, ..MUCH }, None).expect("a write");
    assert!(first.more);
    fixture.crash(store);
    let store = &mut *fixture.open();
    assert!(store.load_job(job_id(1)).expect("a read").is_none());
    let rest = store.clear_doomed(MUCH, None).expect("a write");
    assert!(!rest.more && rest.events > 0, "{rest:?}");
    assert_eq!(store.reader().weight(job_id(1)).expect("a look"), Cleared::default());
}

pub(super) fn version(life: &Life) -> (JobId, u64) {
    (life.job.id, life.job.header.version)
}

/// Lines of an attempt, a byte for each.
fn lines(store: &mut dyn Store, attempt: u64, first_seq: u64, last_seq: u64, complete: bool) {
    let blocks = (first_seq..=last_seq).map(|seq| seq.to_le_bytes()[0]).collect();
    let append = LogAppend { attempt: attempt_id(attempt), first_seq, last_seq, blocks, missing: 0, complete };
    commit(store, &Batch { logs: vec![append], ..Batch::default() });
}
