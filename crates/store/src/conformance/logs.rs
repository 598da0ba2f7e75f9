//! Logs: every line once, in its place, whatever is sent again.

use super::Fixture;
use super::scene::{after, attempt_id, commit};
use crate::read::{LogChunk, LogState};
use crate::{Batch, DueLog, LogAppend, LogClose, LogDeadline, LogMark, Store, StoreError};

pub fn chunks_follow_each_other(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let reader = store.reader();
    assert_eq!(reader.log_state(attempt_id(1)).expect("a read"), LogState::default());
    assert_eq!(chunks(store, 1, 1), []);
    // Two pieces of one log, and one of another, in one batch.
    let other = LogAppend { attempt: attempt_id(2), ..piece(1, 1) };
    commit(store, &Batch { logs: vec![piece(1, 3), other, piece(4, 9)], ..Batch::default() });
    append(store, piece(10, 10));
    assert_eq!(reader.log_state(attempt_id(1)).expect("a read"), at(10, false));
    assert_eq!(reader.log_state(attempt_id(2)).expect("a read"), at(1, false));
    assert_eq!(chunks(store, 1, 1), [chunk(1, 3), chunk(4, 9), chunk(10, 10)]);
    assert_eq!(chunks(store, 1, 0), [chunk(1, 3), chunk(4, 9), chunk(10, 10)]);
    // From the middle of one: the whole chunk that holds the line comes first.
    assert_eq!(chunks(store, 1, 6), [chunk(4, 9), chunk(10, 10)]);
    assert_eq!(chunks(store, 1, 10), [chunk(10, 10)]);
    assert_eq!(chunks(store, 1, 11), []);
}

pub fn a_repeat_changes_nothing(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    append(store, piece(1, 3));
    append(store, piece(4, 6));
    for repeat in [piece(1, 3), piece(4, 6), piece(2, 5)] {
        append(store, repeat);
    }
    assert_eq!(chunks(store, 1, 1), [chunk(1, 3), chunk(4, 6)]);
    append(store, LogAppend { complete: true, ..piece(4, 6) });
    append(store, piece(4, 6));
    let state = store.reader().log_state(attempt_id(1)).expect("a read");
    assert_eq!(state, at(6, true));
    assert_eq!(chunks(store, 1, 1), [chunk(1, 3), chunk(4, 6)]);
}

pub fn a_gap_is_refused(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    assert_refused(store, piece(2, 3));
    append(store, piece(1, 3));
    assert_refused(store, piece(5, 5));
    assert_refused(store, LogAppend { complete: true, ..piece(6, 5) });
    assert_refused(store, LogAppend { missing: 1, ..piece(6, 7) });
    assert_eq!(chunks(store, 1, 1), [chunk(1, 3)]);
}

pub fn an_overlap_is_refused(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    append(store, piece(1, 3));
    assert_refused(store, piece(2, 4));
    assert_eq!(chunks(store, 1, 1), [chunk(1, 3)]);
}

pub fn what_is_no_log_is_refused(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    for (first_seq, last_seq, bytes) in [(0, 0, 1), (0, 3, 1), (1, 3, 0), (1, 0, 1), (5, 2, 0), (1, u64::MAX, 1)] {
        let blocks = vec![7; bytes];
        assert_refused(
            store,
            LogAppend { attempt: attempt_id(1), first_seq, last_seq, blocks, missing: 0, complete: true },
        );
    }
    assert_eq!(store.reader().log_state(attempt_id(1)).expect("a read"), LogState::default());
}

pub fn complete_is_a_word_of_its_own(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    append(store, piece(1, 3));
    append(store, LogAppend { complete: true, ..piece(2, 1) });
    let state = |store: &mut dyn Store, n| store.reader().log_state(attempt_id(n)).expect("a read");
    assert_eq!(state(store, 1), at(3, false), "it is whole only at its last line");
    append(store, LogAppend { complete: true, ..piece(4, 3) });
    assert_eq!(state(store, 1), at(3, true));
    // A step that printed nothing.
    append(store, LogAppend { attempt: attempt_id(2), complete: true, ..piece(1, 0) });
    assert_eq!(state(store, 2), at(0, true));
    assert_eq!(chunks(store, 2, 1), []);
}

pub fn a_whole_log_stays_whole(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    append(store, LogAppend { complete: true, ..piece(1, 3) });
    append(store, piece(4, 5));
    assert_eq!(stands(store, 1), at(5, true), "nobody would close it again");
    assert_eq!(chunks(store, 1, 1), [chunk(1, 3), chunk(4, 5)]);
    append(store, LogAppend { complete: true, ..piece(6, 5) });
    assert_eq!(stands(store, 1), at(5, true));
}

pub fn marks_stand_between_lines(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    append(store, piece(1, 3));
    let mark = |after_seq, missing, text: &str| {
        let at = after(5);
        LogMark { attempt: attempt_id(1), after_seq, at, missing, text: text.to_owned() }
    };
    let marks = vec![mark(3, 4, "first"), mark(0, 0, "before all"), mark(3, 0, "second")];
    let batch = Batch { marks, ..Batch::default() };
    commit(store, &batch);
    assert_eq!(shown(store, 0, 9), ["0.1 before all", "3.1 first", "3.2 second"]);
    // A commit whose answer was lost is made again.
    commit(store, &batch);
    assert_eq!(shown(store, 0, 9), ["0.1 before all", "3.1 first", "3.2 second"]);
    assert_eq!(shown(store, 1, 2), [""; 0]);
    // What is said to be gone counts only where the log stands.
    assert_eq!(stands(store, 1), LogState { announced: 4, ..at(3, false) });
    append(store, LogAppend { missing: 4, ..piece(8, 8) });
    assert_eq!(stands(store, 1), at(8, false));
    // A log without a line has a place for them too.
    let early = LogMark { attempt: attempt_id(2), ..mark(0, 7, "gone") };
    commit(store, &Batch { marks: vec![early], ..Batch::default() });
    assert_eq!(stands(store, 2), LogState { announced: 7, ..at(0, false) });
}

pub fn a_log_is_closed_in_time_and_opened_again(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    append(store, piece(1, 3));
    let deadline = LogDeadline { attempt: attempt_id(1), close_at: after(60), end_seq: Some(9) };
    commit(store, &Batch { log_deadlines: vec![deadline], ..Batch::default() });
    assert_eq!(store.next_check().expect("a look"), Some(after(60)));
    assert_eq!(store.due_logs(after(59), 10).expect("a look"), []);
    let due = DueLog { attempt: attempt_id(1), last_seq: 3, end_seq: Some(9), worker: None };
    assert_eq!(store.due_logs(after(60), 10).expect("a look"), [due]);
    let close = LogClose { attempt: attempt_id(1), after_seq: 3, text: Some("6 are missing".to_owned()) };
    commit(store, &Batch { now: after(60), log_closes: vec![close], ..Batch::default() });
    let ends = |state| LogState { end_seq: Some(9), ..state };
    assert_eq!(stands(store, 1), ends(LogState { closed: true, ..at(3, true) }));
    assert_eq!(shown(store, 3, 3), ["3.1 6 are missing"]);
    assert_eq!(store.next_check().expect("a look"), None);
    // They come after all.
    append(store, piece(4, 6));
    assert_eq!(stands(store, 1), ends(at(6, false)));
    assert_eq!(shown(store, 0, 9), [""; 0]);
    commit(store, &Batch { log_deadlines: vec![deadline], ..Batch::default() });
    append(store, LogAppend { complete: true, ..piece(7, 9) });
    assert_eq!(stands(store, 1), ends(at(9, true)));
    assert_eq!(store.due_logs(after(99), 10).expect("a look"), []);
}

pub fn a_whole_log_has_no_deadline(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let deadline = |n| LogDeadline { attempt: attempt_id(n), close_at: after(60), end_seq: None };
    let whole = LogAppend { complete: true, ..piece(1, 3) };
    commit(store, &Batch { logs: vec![whole], log_deadlines: vec![deadline(1)], ..Batch::default() });
    assert_eq!(store.due_logs(after(99), 10).expect("a look"), []);
    // Closed though no line is missing: only the word that it is whole was lost.
    commit(store, &Batch { log_deadlines: vec![deadline(2)], ..Batch::default() });
    let close = LogClose { attempt: attempt_id(2), after_seq: 0, text: None };
    commit(store, &Batch { log_closes: vec![close], ..Batch::default() });
    assert_eq!(stands(store, 2), at(0, true));
}

pub fn pages_hold_at_least_one_chunk(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    for first in [1, 11, 21] {
        append(store, piece(first, first + 9));
    }
    let page = |bytes| store.reader().log_chunks(attempt_id(1), 1, bytes).expect("a read");
    assert_eq!(page(0), [chunk(1, 10)]);
    assert_eq!(page(19), [chunk(1, 10)]);
    assert_eq!(page(20), [chunk(1, 10), chunk(11, 20)]);
    assert_eq!(page(usize::MAX).len(), 3);
}

/// Lines `first` to `last`, a byte each; nothing where `last` is before `first`.
fn piece(first: u64, last: u64) -> LogAppend {
    let blocks = chunk(first, last).blocks;
    LogAppend { attempt: attempt_id(1), first_seq: first, last_seq: last, blocks, missing: 0, complete: false }
}

fn chunk(first: u64, last: u64) -> LogChunk {
    let blocks = (first..=last).map(|seq| seq.to_le_bytes()[0]).collect();
    LogChunk { first_seq: first, last_seq: last, blocks }
}

fn append(store: &mut dyn Store, append: LogAppend) {
    commit(store, &Batch { logs: vec![append], ..Batch::default() });
}

fn assert_refused(store: &mut dyn Store, append: LogAppend) {
    let error = store.commit(&Batch { logs: vec![append], ..Batch::default() }).expect_err("a piece out of place");
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
}

fn chunks(store: &mut dyn Store, attempt: u64, from: u64) -> Vec<LogChunk> {
    store.reader().log_chunks(attempt_id(attempt), from, usize::MAX).expect("a read")
}

fn at(last_seq: u64, complete: bool) -> LogState {
    LogState { last_seq, complete, ..LogState::default() }
}

/// The marks of the first log, as `place text`.
fn shown(store: &mut dyn Store, from: u64, to: u64) -> Vec<String> {
    let marks = store.reader().log_marks(attempt_id(1), from, to, 100).expect("a read");
    marks.iter().map(|mark| format!("{}.{} {}", mark.after_seq, mark.sub, mark.text)).collect()
}

fn stands(store: &mut dyn Store, n: u64) -> LogState {
    store.reader().log_state(attempt_id(n)).expect("a read")
}
