//! Two servers that do the same at the same time: exactly one of them wins, and the other learns of it.
//!
//! Each case lets two stores on one database go at once, a few times over, since a race that is lost every time is none.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Epoch, Event, Heard, JobId, Time};

use super::Fixture;
use super::access::{enrolled, hello, new_worker, token};
use super::children::{begun_by, calling, together};
use super::leases::{claim, claims, tenure};
use super::retention::version;
use super::scene::{FIRST, Life, T0, after, attempt_id, definition_row, grouped, id, job_id, plain, worker_id};
use super::servers::server;
use super::triggers::{trigger, written};
use crate::read::LogState;
use crate::rows::{
    HearingRow, IdempotencyRow, LateOutcome, LineageRow, OutboxMove, OutboxRow, SecretRow, ServerId, TaskRow,
    WorkerHello,
};
use crate::{
    Admission, Batch, Cleared, Enrolled, Lease, LogAppend, LogClose, LogDeadline, LogMark, Mark, Piece, Store,
    StoreError, TriggerWrite,
};

pub(super) const ROUNDS: u64 = 12;

/// Two servers on one database; none where there can be only one.
pub(super) struct Servers {
    stores: [Box<dyn Store>; 2],
}

impl Servers {
    pub(super) fn open(fixture: &mut dyn Fixture) -> Option<Servers> {
        let one = fixture.open();
        let Some(other) = fixture.open_beside() else {
            assert!(!one.is_shared(), "a store that others may share can be opened twice");
            return None;
        };
        Some(Servers { stores: [one, other] })
    }

    pub(super) fn one(&mut self) -> &mut dyn Store {
        &mut *self.stores[0]
    }

    /// Both at once; which of them is said by a number.
    pub(super) fn race<T: Send>(&mut self, run: impl Fn(&mut dyn Store, u64) -> T + Sync) -> [T; 2] {
        let start = Barrier::new(2);
        let racer = |store: &mut dyn Store, n| {
            start.wait();
            run(store, n)
        };
        let [one, other] = &mut self.stores;
        std::thread::scope(|scope| {
            let first = scope.spawn(|| racer(&mut **one, 0));
            let second = racer(&mut **other, 1);
            [first.join().expect("no panic"), second]
        })
    }

    /// Both commit; what became of each.
    pub(super) fn commit(&mut self, batch: impl Fn(u64) -> Batch + Sync) -> [Result<crate::Committed, StoreError>; 2] {
        self.race(|store, n| store.commit(&batch(n)))
    }
}

/// How many of both took all of their batch.
fn winners(outcomes: &[Result<crate::Committed, StoreError>; 2]) -> usize {
    let whole = |outcome: &Result<crate::Committed, StoreError>| match outcome {
        Ok(done) => {
            done.conflicts.is_empty()
                && done.triggers_moved.is_empty()
                && done.groups_moved.is_empty()
                && !done.mark_moved
        }
        Err(StoreError::Moved { .. }) => false,
        Err(error) => panic!("a race is no error: {error}"),
    };
    outcomes.iter().filter(|outcome| whole(outcome)).count()
}

fn cancel() -> Event {
    Event::Cancel { by: "eve".to_owned(), force: false }
}

pub fn of_two_who_move_a_job_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let life = Life::submit(servers.one(), n, &plain());
        let outcomes = servers.commit(|who| {
            let event = if who == 0 { cancel() } else { Event::CheckJob };
            life.clone().change(&event).1
        });
        assert_eq!(winners(&outcomes), 1);
    }
}

pub fn of_two_who_begin_the_same_job_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let parent = Life::submit(servers.one(), n, &plain());
        let child = 100 + n;
        let outcomes = servers.commit(|_| {
            let (_, mut batch) = parent.clone().change(&Event::CheckJob);
            let (_, begun) = Life::draft(child, &plain(), after(child));
            batch.definitions.extend(begun.definitions);
            batch.jobs.extend(begun.jobs);
            batch.steps.extend(begun.steps);
            batch.events.extend(begun.events);
            batch.ties.push((job_id(n), job_id(child)));
            batch
        });
        assert_eq!(winners(&outcomes), 1);
    }
}

/// One writes a child's end, and with it the parent that hears of it, while the other calls the parent off: both rows, or neither.
pub fn of_who_ends_a_child_and_who_calls_its_parent_off_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let parent = Life::submit(servers.one(), n, &calling());
        let (mut child, begun) = begun_by(&parent, 100 + n);
        servers.one().commit(&begun).expect("a write");
        let outcomes = servers.commit(|who| match who {
            0 => {
                let (of_child, of_parent) =
                    (child.clone().change(&cancel()).1, parent.clone().change(&Event::CheckJob).1);
                together([of_child, of_parent], vec![(job_id(n), job_id(100 + n))])
            }
            _ => parent.clone().change(&cancel()).1,
        });
        assert_eq!(winners(&outcomes), 1);
        if outcomes[0].as_ref().is_ok_and(|done| done.conflicts.is_empty()) {
            let (changes, _) = child.change(&cancel());
            child.job.absorb(&changes);
        }
        child.assert_stored(servers.one());
    }
}

/// Without a row that both have to lock.
pub fn of_two_who_submit_with_one_key_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let outcomes = servers.commit(|who| {
            let (life, mut batch) = Life::draft(2 * n + who, &plain(), after(n));
            let (key, token, job) = (format!("key {n}"), id(900), life.job.id);
            batch.idempotency.push(IdempotencyRow { key, token, request_hash: [1; 32], job, created_at: after(n) });
            batch
        });
        assert_eq!(winners(&outcomes), 1);
        let there = [2 * n, 2 * n + 1].map(|n| servers.one().load_job(job_id(n)).expect("a read").is_some());
        assert_ne!(there[0], there[1], "one of both jobs is there");
    }
}

pub fn of_two_who_go_on_for_a_job_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let outcomes = servers.commit(|who| {
            let (life, mut batch) = Life::draft(100 + 2 * n + who, &plain(), after(n));
            let (continues, root, number) = (job_id(1), job_id(1), u32::try_from(n).expect("few"));
            let (job, how, by, at) = (life.job.id, "retry", "ann".to_owned(), after(n));
            batch.lineage.push(LineageRow { job, continues, root, number, resolves: false, how, by, at });
            batch
        });
        assert_eq!(winners(&outcomes), 1);
    }
}

pub fn of_two_who_admit_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    let mut last = None;
    for n in 1..=ROUNDS {
        let definition = grouped("release", 0);
        let lives = [2 * n, 2 * n + 1].map(|n| Life::submit(servers.one(), n, &definition));
        // The first time nobody ever was admitted.
        let outcomes = servers.commit(|who| {
            let mut life = lives[usize::try_from(who).expect("0 or 1")].clone();
            let (_, mut batch) = life.change(&Event::Admit { reason: "there is room".to_owned() });
            let (group, jobs) = ("release".to_owned(), vec![life.job.id]);
            batch.admissions.push(Admission { group, expected: last, jobs, after: Vec::new() });
            batch
        });
        assert_eq!(winners(&outcomes), 1);
        last = servers.one().reader().last_admitted("release").expect("a read");
        assert!(last.is_some_and(|last| lives.iter().any(|life| life.job.id == last)));
    }
}

pub fn of_two_who_fire_a_trigger_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let name = format!("nightly {n}");
        // First the row itself, which both have seen missing, then its move.
        assert_eq!(winners(&servers.commit(|_| written(trigger(&name, 1, Some(after(1))), None))), 1);
        let outcomes = servers.commit(|who| {
            let (life, batch) = Life::draft(100 + 2 * n + who, &plain(), after(n));
            let row = trigger(&name, 2, Some(after(2)));
            Batch { triggers: vec![TriggerWrite { row, expected: Some(1), jobs: vec![life.job.id] }], ..batch }
        });
        assert_eq!(winners(&outcomes), 1);
    }
}

pub fn of_two_who_greet_a_worker_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    enrolled(servers.one(), 1);
    for n in 1..=ROUNDS {
        let outcomes = servers.commit(|who| {
            let server = ServerId(id(700 + who));
            Batch {
                hellos: vec![WorkerHello { epoch: Epoch(n), server, ..hello(1) }],
                now: after(n),
                ..Batch::default()
            }
        });
        assert_eq!(winners(&outcomes), 1);
        let won = outcomes.iter().position(Result::is_ok).expect("one of them");
        let row = servers.one().worker(worker_id(1)).expect("a read").expect("the worker");
        assert_eq!(row.server, Some(ServerId(id(700 + won as u64))), "the link is where it was told so");
    }
}

pub fn of_two_who_mark_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    let row = |seconds: u64, who: u64| HearingRow {
        mark_at: Time(after(seconds).0 + i64::try_from(who).expect("0 or 1")),
        deaf_us: 0,
        stretch_from: Heard(1),
        unsettled_since: None,
        verdicts_from: Heard::MIN,
        alarmed: false,
    };
    let mut last = None;
    for n in 1..=ROUNDS {
        let mark = |who| Batch { hearing: Some(Mark { row: row(n, who), expected: last }), ..Batch::default() };
        assert_eq!(winners(&servers.commit(mark)), 1);
        last = servers.one().reader().hearing().expect("a read");
    }
}

/// The first time there is no row that both could lock.
pub fn of_two_who_claim_a_lease_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        // Those of the rounds before are over.
        let by = |who| 2 * n + who;
        let outcomes = servers.commit(|who| claims(claim(Lease::Cron, by(who), 10 * n)));
        let held = outcomes.map(|outcome| outcome.expect("a race is no error").leases);
        assert_eq!(held[0], held[1], "both know whose it is");
        let (holder, epoch) = (held[0][0].holder, held[0][0].epoch);
        assert_eq!(epoch, n, "one of both has taken it, and nobody after that");
        assert!([0, 1].iter().any(|who| holder == ServerId(id(by(*who)))));
    }
}

/// One takes the lease while the other deletes under it: the fence holds to the end, or there is no deletion.
pub fn who_deletes_and_who_takes_the_lease_wait_for_each_other(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let mut life = Life::submit(servers.one(), n, &plain());
        life.apply(servers.one(), &cancel());
        let old = [(life.job.id, life.job.header.version)];
        let epoch = 2 * n - 1;
        let taken = servers.one().commit(&claims(claim(Lease::Retention, 1, 100 * n))).expect("a write").leases;
        assert_eq!(taken[0].tenure(), tenure(Lease::Retention, 1, epoch));
        let gone = servers.race(|store, who| match who {
            0 => store.doom(&old, after(n), Some(tenure(Lease::Retention, 1, epoch))).map(|gone| gone.len()),
            _ => store.commit(&claims(claim(Lease::Retention, 2, 100 * n + 10))).map(|done| done.leases.len()),
        });
        let is_there = servers.one().load_job(life.job.id).expect("a read").is_some();
        match &gone[0] {
            Ok(count) => assert!(*count == 1 && !is_there),
            Err(StoreError::Moved { .. }) => assert!(is_there),
            Err(error) => panic!("a race is no error: {error}"),
        }
        assert_eq!(gone[1].as_ref().ok(), Some(&1));
    }
}

pub fn of_two_who_enroll_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let single = token(n, "enroll");
        servers.one().put_token(&single).expect("a token");
        let outcomes = servers.race(|store, who| store.enroll(&single.hash, &new_worker(2 * n + who), after(1)));
        let outcomes = outcomes.map(|outcome| outcome.expect("a race is no error"));
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Enrolled::Yes).count(), 1);
    }
}

pub fn two_who_append_the_same_lines_add_them_once(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let attempt = attempt_id(n);
        let outcomes = servers.commit(|_| {
            let append =
                LogAppend { attempt, first_seq: 1, last_seq: 3, blocks: vec![7; 3], missing: 0, complete: false };
            Batch { logs: vec![append], ..Batch::default() }
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let reader = servers.one().reader();
        assert_eq!(reader.log_state(attempt).expect("a read"), LogState { last_seq: 3, ..LogState::default() });
        assert_eq!(reader.log_chunks(attempt, 1, usize::MAX).expect("a read").len(), 1);
    }
}

/// Each has what the other wants first, and neither is refused for it.
pub fn two_who_want_the_same_jobs_wait_for_each_other(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    let lives: Vec<Life> = (1..=ROUNDS).map(|n| Life::submit(servers.one(), n, &plain())).collect();
    let outcomes = servers.commit(|who| {
        let mut all = Batch::default();
        let mut add = |life: &Life| {
            let (_, batch) = life.clone().change(&cancel());
            all.jobs.extend(batch.jobs);
            all.steps.extend(batch.steps);
            all.events.extend(batch.events);
        };
        if who == 0 {
            lives.iter().for_each(&mut add);
        } else {
            lives.iter().rev().for_each(&mut add);
        }
        all
    });
    let mut left_out: Vec<usize> =
        outcomes.iter().map(|outcome| outcome.as_ref().expect("no refusal").conflicts.len()).collect();
    left_out.sort_unstable();
    assert_eq!(left_out, [0, lives.len()], "who comes second finds all of them moved");
}

pub fn numbers_are_given_once(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    let given = servers.race(|store, who| {
        let fences: Vec<u64> = (0..ROUNDS).map(|_| store.reserve_fences(3, 0).expect("fences")).collect();
        let row = server(1 + who, after(1));
        let generations: Vec<u64> = (0..ROUNDS).map(|_| store.register_server(&row, T0).expect("a number")).collect();
        (fences, generations)
    });
    let [one, other] = given;
    let fences: BTreeSet<u64> = one.0.iter().chain(&other.0).copied().collect();
    let apart = fences.iter().zip(fences.iter().skip(1)).all(|(a, b)| b - a >= 3);
    assert!(fences.len() as u64 == 2 * ROUNDS && apart, "{fences:?}");
    let generations: BTreeSet<u64> = one.1.into_iter().chain(other.1).collect();
    assert_eq!(generations, (1..=2 * ROUNDS).collect());
}

/// A third one reads while two write, and goes on from the last number that it saw.
pub fn who_follows_the_numbers_misses_nothing(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    let mut third = fixture.open_beside().expect("a third one");
    let over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut seen: Vec<(u64, JobId)> = Vec::new();
            loop {
                // Asked before the look: what is there when all is over is in the last one.
                let last_look = over.load(Ordering::SeqCst);
                let after = seen.last().map_or(0, |(number, _)| *number);
                seen.extend(third.changed_since(after, 7).expect("a read"));
                if last_look && seen.last().map_or(0, |(number, _)| *number) == after {
                    return seen;
                }
            }
        });
        servers.race(|store, who| {
            for n in 1..=ROUNDS {
                Life::submit(store, 2 * n + who, &plain()).start(store, FIRST, 2 * n + who, 1);
            }
        });
        over.store(true, Ordering::SeqCst);
        follower.join().expect("no panic")
    });
    assert_eq!(seen, servers.one().changed_since(0, 10_000).expect("a read"));
    let jobs: BTreeSet<JobId> = seen.iter().map(|(_, job)| *job).collect();
    assert_eq!(jobs.len() as u64, 2 * ROUNDS);
}

pub fn of_two_who_deliver_a_word_one_wins(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let (job, body, created_at) = (job_id(1), String::new(), after(n));
        let word = OutboxRow { id: id(n), job, kind: "webhook", body, created_at };
        servers.one().commit(&Batch { outbox: vec![word], ..Batch::default() }).expect("a write");
        let outcomes = servers.commit(|who| {
            let (tries, next_at) = (1, Some(after(100 + who)));
            let claim = OutboxMove { id: id(n), expected: 0, tries, next_at, delivered_at: None, error: None };
            Batch { outbox_moves: vec![claim], ..Batch::default() }
        });
        let left_out = outcomes.map(|outcome| outcome.expect("a race is no error").outbox_moved.len());
        assert_eq!(left_out.iter().sum::<usize>(), 1);
        let won = left_out.iter().position(|left_out| *left_out == 0).expect("one of them") as u64;
        let row = servers.one().reader().outbox(id(n)).expect("a read").expect("the word");
        assert_eq!((row.tries, row.next_at), (1, Some(after(100 + won))));
    }
}

/// What was given up is said to have ended twice, by different servers: the first word stays.
pub fn of_two_late_ends_one_stays(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let mut life = Life::submit(servers.one(), n, &plain());
        let ticket = life.start(servers.one(), FIRST, n, 1);
        life.lose(servers.one(), ticket);
        let outcomes = servers.commit(|who| {
            let late = LateOutcome { attempt: attempt_id(n), outcome: format!("{{\"who\":{who}}}"), at: after(n) };
            Batch { late_outcomes: vec![late], ..Batch::default() }
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let end = || servers.stores[0].reader().attempts(job_id(n)).expect("a read")[0].late_outcome.clone();
        let first = end();
        assert!(first.as_deref().is_some_and(|text| text.contains("who")), "{first:?}");
    }
}

/// Two write the same word into a log, and each one of its own beside it: each is there once, in a place of its own.
pub fn two_who_mark_a_log_leave_each_word_once(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let attempt = attempt_id(n);
        let append = LogAppend { attempt, first_seq: 1, last_seq: 2, blocks: vec![7, 7], missing: 0, complete: false };
        servers.one().commit(&Batch { logs: vec![append], ..Batch::default() }).expect("a write");
        let mark = |text: String| LogMark { attempt, after_seq: 2, at: after(n), missing: 0, text };
        let outcomes = servers.commit(|who| {
            let marks = vec![mark("--- cut off ---".to_owned()), mark(format!("--- said by {who} ---"))];
            Batch { marks, now: after(n), ..Batch::default() }
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let marks = servers.one().reader().log_marks(attempt, 1, 9, 10).expect("a read");
        let mut texts: Vec<&str> = marks.iter().map(|mark| mark.text.as_str()).collect();
        texts.sort_unstable();
        assert_eq!(texts, ["--- cut off ---", "--- said by 0 ---", "--- said by 1 ---"]);
    }
}

/// One closes a log whose time is over while the other brings its last lines: they count.
pub fn who_closes_a_log_and_who_brings_its_end_are_both_heard(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let attempt = attempt_id(n);
        let append = |first_seq: u64, last_seq: u64, complete| {
            let blocks = vec![7; usize::try_from(last_seq + 1 - first_seq).expect("few")];
            LogAppend { attempt, first_seq, last_seq, blocks, missing: 0, complete }
        };
        let begun = LogDeadline { attempt, close_at: after(n), end_seq: Some(4) };
        let begun =
            Batch { logs: vec![append(1, 2, false)], log_deadlines: vec![begun], now: after(n), ..Batch::default() };
        servers.one().commit(&begun).expect("a write");
        let outcomes = servers.commit(|who| match who {
            0 => Batch { logs: vec![append(3, 4, true)], now: after(n), ..Batch::default() },
            _ => {
                let close =
                    LogClose { attempt, after_seq: 2, text: Some("--- 2 log lines are missing ---".to_owned()) };
                Batch { log_closes: vec![close], now: after(n), ..Batch::default() }
            }
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let reader = servers.one().reader();
        let state = reader.log_state(attempt).expect("a read");
        assert_eq!((state.last_seq, state.complete, state.closed), (4, true, false));
        assert_eq!(reader.log_marks(attempt, 0, 99, 99).expect("a read"), [], "nothing is missing");
    }
}

pub fn of_two_who_delete_a_job_one_does(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let mut life = Life::submit(servers.one(), n, &plain());
        life.run_to_end(servers.one(), n, 0);
        let (old, weight) = ([version(&life)], servers.one().reader().weight(life.job.id).expect("a look"));
        let gone = servers.race(|store, _| store.doom(&old, after(100), None).expect("a race is no error").len());
        assert_eq!(gone.iter().sum::<usize>(), 1);
        // And what is left of it goes once, however many clear it away.
        let cleared = servers.race(|store, _| {
            let mut all = store.clear_doomed(LITTLE, None).expect("a race is no error");
            while all.more {
                all.add(store.clear_doomed(LITTLE, None).expect("a race is no error"));
            }
            all
        });
        let [mut all, other] = cleared;
        all.add(other);
        assert_eq!((all.steps, all.attempts, all.events), (weight.steps, weight.attempts, weight.events));
        assert_eq!(servers.one().reader().weight(life.job.id).expect("a look"), Cleared::default());
    }
}

/// A few rows at a time, so that both have something to do.
const LITTLE: Piece = Piece { rows: 2, log_bytes: 1_000_000 };

/// A definition that no job had until now is deleted while somebody submits one that has it.
pub fn who_submits_and_who_deletes_its_definition_wait_for_each_other(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let row = definition_row(&plain());
        servers.one().commit(&Batch { definitions: vec![row], ..Batch::default() }).expect("a write");
        let outcomes = servers.race(|store, who| match who {
            0 => store.prune_definitions(None, 10, None).map(drop),
            _ => store.commit(&Life::draft(n, &plain(), after(n)).1).map(drop),
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let mut life = Life::read(servers.one(), n, &plain());
        life.assert_stored(servers.one());
        life.apply(servers.one(), &cancel());
        servers.one().doom(&[version(&life)], after(100), None).expect("a write");
    }
}

pub fn two_who_drop_a_log_leave_one_word(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let mut life = Life::submit(servers.one(), n, &plain());
        life.run_to_end(servers.one(), n, 0);
        for seq in 1..=4 {
            let (attempt, blocks, complete) = (attempt_id(n), vec![7], seq == 4);
            let append = LogAppend { attempt, first_seq: seq, last_seq: seq, blocks, missing: 0, complete };
            servers.one().commit(&Batch { logs: vec![append], ..Batch::default() }).expect("a write");
        }
        let dropped = servers.race(|store, _| {
            let drop_some =
                |store: &mut dyn Store| store.drop_log(attempt_id(n), after(n), LITTLE, None).expect("a write");
            let mut all = drop_some(store);
            while all.more {
                all.add(drop_some(store));
            }
            all.log_lines
        });
        assert_eq!(dropped.iter().sum::<u64>(), 4);
        let marks = servers.one().reader().log_marks(attempt_id(n), 0, 99, 99).expect("a read");
        assert_eq!(marks.iter().map(|mark| mark.missing).collect::<Vec<_>>(), [4]);
    }
}

/// It comes back after a month in the moment in which it is deleted: it is one or the other.
pub fn who_greets_a_worker_and_who_deletes_it_wait_for_each_other(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        enrolled(servers.one(), n);
        let outcomes = servers.race(|store, who| match who {
            0 => store.depart(worker_id(n), after(800), after(900), None).map(|gone| !gone),
            _ => {
                let (hellos, now) = (vec![WorkerHello { epoch: Epoch(1), ..hello(n) }], after(900));
                store.commit(&Batch { hellos, now, ..Batch::default() }).map(|_| true)
            }
        });
        let stays = *outcomes[0].as_ref().expect("a race is no error");
        assert_eq!(outcomes[1].is_ok(), stays, "{outcomes:?}");
        assert_eq!(servers.one().worker(worker_id(n)).expect("a read").is_some(), stays);
        let departed = servers.one().reader().departed(worker_id(n)).expect("a read");
        assert_eq!(departed.is_none(), stays);
    }
}

pub fn of_two_who_revoke_or_remove_one_does(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let token = token(n, "api");
        servers.one().put_token(&token).expect("a token");
        let revoked = servers.race(|store, _| store.revoke_token(token.id, after(n)).expect("a race is no error"));
        assert_eq!(revoked.iter().filter(|revoked| **revoked).count(), 1);
        let name = format!("KEY_{n}");
        let secret =
            |who: u64| SecretRow { name: name.clone(), sealed: vec![7], set_at: after(who), set_by: "ann".to_owned() };
        servers.race(|store, who| store.put_secret(&secret(who)).expect("a race is no error"));
        let removed = servers.race(|store, _| store.remove_secret(&name).expect("a race is no error"));
        assert_eq!(removed.iter().filter(|removed| **removed).count(), 1);
    }
}

/// Whoever comes last has the last word, and there is one row.
pub fn of_two_who_say_something_the_last_word_stays(fixture: &mut dyn Fixture) {
    let Some(mut servers) = Servers::open(fixture) else { return };
    for n in 1..=ROUNDS {
        let name = format!("task {n}");
        let task = |who: u64| TaskRow {
            name: name.clone(),
            source: format!("by {who}"),
            pushed_at: after(who),
            pushed_by: "ann".to_owned(),
        };
        servers.race(|store, who| {
            store.put_task(&task(who)).expect("a race is no error");
            store.set_meta("word", &format!("{n} by {who}")).expect("a race is no error");
        });
        let reader = servers.one().reader();
        let tasks: Vec<TaskRow> = reader.tasks().expect("a read").into_iter().filter(|row| row.name == name).collect();
        assert!(tasks == [task(0)] || tasks == [task(1)], "{tasks:?}");
        let word = reader.meta("word").expect("a read").expect("a word");
        assert!([0, 1].iter().any(|who| word == format!("{n} by {who}")), "{word}");
    }
}
