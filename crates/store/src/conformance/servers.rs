//! Several servers on one database: who is here, the mark that they share, and what each can know of the others' changes.

use engine::{Epoch, Event, Heard, Time};

use super::Fixture;
use super::access::{enrolled, hello, say_hello};
use super::scene::{FIRST, Life, T0, after, commit, id, job_id, plain, worker_id};
use crate::rows::{HearingRow, ServerId, ServerRow, WorkerHello};
use crate::{Batch, DueLog, LogDeadline, Mark, Store, StoreError};

pub fn every_start_is_a_generation(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    assert_eq!(store.reader().servers().expect("a read"), []);
    assert_eq!(store.register_server(&server(1, after(1)), T0).expect("a write"), 1);
    assert_eq!(store.register_server(&server(2, after(5)), T0).expect("a write"), 2);
    fixture.crash(store);
    let mut store = fixture.open();
    let of = |n, generation| ServerRow { generation, ..server(n, after(n * 4 - 3)) };
    assert_eq!(store.reader().servers().expect("a read"), [of(1, 1), of(2, 2)]);
    assert_eq!(store.register_server(&server(3, after(9)), after(5)).expect("a write"), 3);
    let left: Vec<u64> = store.reader().servers().expect("a read").iter().map(|row| row.generation).collect();
    assert_eq!(left, [2, 3], "the one without a mark for so long is gone");
}

pub fn a_server_shows_that_it_lives_and_says_that_it_goes(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let generation = store.register_server(&server(1, after(1)), T0).expect("a write");
    let beat = ServerRow { generation, beat_at: after(3), beat_heard: Heard(2), ..server(1, after(1)) };
    commit(store, &Batch { server: Some(beat.clone()), ..Batch::default() });
    assert_eq!(store.reader().servers().expect("a read"), std::slice::from_ref(&beat));
    let gone = ServerRow { left_at: Some(after(4)), ..beat };
    commit(store, &Batch { server: Some(gone.clone()), ..Batch::default() });
    assert_eq!(store.reader().servers().expect("a read"), [gone]);
}

pub fn a_mark_that_another_server_overtook_is_left_out_alone(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let (first, second, third) = (mark(1), mark(2), mark(3));
    let write = |row, expected| Batch { hearing: Some(Mark { row, expected }), ..Batch::default() };
    assert!(!store.commit(&write(first, None)).expect("a write").mark_moved);
    assert!(!store.commit(&write(second, Some(first))).expect("a write").mark_moved);
    let meta = vec![("dispatch", "on".to_owned())];
    let late = Batch { meta, ..write(third, Some(first)) };
    assert!(store.commit(&late).expect("a write").mark_moved);
    assert!(store.commit(&write(third, None)).expect("a write").mark_moved);
    let reader = store.reader();
    assert_eq!(reader.hearing().expect("a read"), Some(second));
    assert_eq!(reader.meta("dispatch").expect("a read").as_deref(), Some("on"), "all else is there");
}

pub fn a_hello_that_was_overtaken_undoes_its_batch(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    enrolled(store, 1);
    say_hello(store, &WorkerHello { epoch: Epoch(5), ..hello(1) }, after(10));
    let elsewhere = WorkerHello { epoch: Epoch(5), server: ServerId(id(9)), ..hello(1) };
    let batch = Batch { hellos: vec![elsewhere], meta: vec![("dispatch", "on".to_owned())], ..Batch::default() };
    let error = store.commit(&batch).expect_err("an epoch that was given before");
    assert!(matches!(error, StoreError::Moved { .. }), "{error}");
    assert_eq!(store.reader().meta("dispatch").expect("a read"), None, "nothing of it happened");
    let row = store.worker(worker_id(1)).expect("a read").expect("the worker");
    assert_eq!(row.server, Some(hello(1).server));
}

pub fn an_old_links_word_does_not_count(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    enrolled(store, 1);
    say_hello(store, &WorkerHello { epoch: Epoch(5), ..hello(1) }, after(10));
    let said = |epoch: u64| Batch {
        left: vec![(worker_id(1), Epoch(epoch), Heard(7))],
        unwilling: vec![(worker_id(1), Epoch(epoch), true)],
        ..Batch::default()
    };
    let row = |store: &mut dyn Store| {
        let row = store.worker(worker_id(1)).expect("a read").expect("the worker");
        (row.left_heard, row.unwilling)
    };
    commit(store, &said(4));
    assert_eq!(row(store), (None, false), "of a link before this one");
    commit(store, &said(5));
    assert_eq!(row(store), (Some(Heard(7)), true));
    say_hello(store, &WorkerHello { epoch: Epoch(6), ..hello(1) }, after(11));
    assert_eq!(row(store), (None, false), "a hello begins anew");
}

pub fn a_log_that_is_due_names_its_worker(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let ticket = Life::submit(store, 1, &plain()).start(store, FIRST, 1, 1);
    let deadline = LogDeadline { attempt: ticket.attempt, close_at: after(60), end_seq: None };
    commit(store, &Batch { log_deadlines: vec![deadline], ..Batch::default() });
    let due = store.due_logs(after(60), 10).expect("a look");
    assert_eq!(due, [DueLog { attempt: ticket.attempt, last_seq: 0, end_seq: None, worker: Some(worker_id(1)) }]);
}

pub fn changes_are_found_by_their_numbers(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    assert_eq!(store.changed_since(0, 10).expect("a read"), []);
    Life::submit(store, 1, &plain());
    let mut life = Life::submit(store, 2, &plain());
    let all = store.changed_since(0, 100).expect("a read");
    assert!(all.is_sorted_by(|a, b| a.0 < b.0) && all.iter().any(|(_, job)| *job == job_id(1)), "{all:?}");
    let last = store.reader().last_event().expect("a read");
    assert_eq!(all.last(), Some(&(last, job_id(2))));
    assert_eq!(store.changed_since(0, 1).expect("a read"), all[..1]);
    life.apply(store, &Event::Cancel { by: "ann".to_owned(), force: false });
    let since = store.changed_since(last, 100).expect("a read");
    assert!(!since.is_empty() && since.iter().all(|(number, job)| *number > last && *job == job_id(2)), "{since:?}");
}

pub fn two_servers_race_and_one_of_them_wins(fixture: &mut dyn Fixture) {
    let mut one = fixture.open();
    let Some(mut other) = fixture.open_beside() else {
        assert!(!one.is_shared(), "a store that others may share can be opened twice");
        return;
    };
    assert!(one.is_shared());
    assert_eq!(one.register_server(&server(1, after(1)), T0).expect("a write"), 1);
    assert_eq!(other.register_server(&server(2, after(1)), T0).expect("a write"), 2);
    // One job, one version: the second of two writes is left out.
    let mut here = Life::submit(&mut *one, 1, &plain());
    let mut there = Life::read(&mut *other, 1, &plain());
    here.offer(&mut *one, FIRST, 1, 1);
    let (_, late) = there.change(&Event::Cancel { by: "ann".to_owned(), force: false });
    assert!(other.commit(&late).expect("a write").conflicts.contains(&job_id(1)));
    let seen = other.changed_since(0, 100).expect("a read");
    assert_eq!(seen, one.changed_since(0, 100).expect("a read"), "both see all of it");
    // One mark, one link.
    let write = |row, expected| Batch { hearing: Some(Mark { row, expected }), ..Batch::default() };
    assert!(!one.commit(&write(mark(1), None)).expect("a write").mark_moved);
    assert!(other.commit(&write(mark(2), None)).expect("a write").mark_moved);
    assert_eq!(other.reader().hearing().expect("a read"), Some(mark(1)));
    enrolled(&mut *one, 1);
    say_hello(&mut *one, &hello(1), after(10));
    let again = Batch { hellos: vec![hello(1)], ..Batch::default() };
    assert!(matches!(other.commit(&again), Err(StoreError::Moved { .. })));
    let blocks = [&mut one, &mut other].map(|s| s.reserve_fences(10, 1).expect("a write"));
    assert!(blocks[1] >= blocks[0] + 10, "{blocks:?}");
}

pub(super) fn server(n: u64, at: Time) -> ServerRow {
    ServerRow {
        id: ServerId(id(n)),
        generation: 0,
        address: format!("10.0.0.{n}:7411"),
        started_at: at,
        beat_at: at,
        beat_heard: Heard(at.0),
        left_at: None,
    }
}

fn mark(seconds: u64) -> HearingRow {
    HearingRow {
        mark_at: after(seconds),
        deaf_us: 0,
        stretch_from: Heard(1),
        unsettled_since: None,
        verdicts_from: Heard::MIN,
        alarmed: false,
    }
}
