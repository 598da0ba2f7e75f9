//! Logs: every line once, in its place, whatever is sent again.

use super::Fixture;
use super::scene::{attempt_id, commit};
use crate::read::{LogChunk, LogState};
use crate::{Batch, LogAppend, Store, StoreError};

pub fn chunks_follow_each_other(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let reader = store.reader();
    assert_eq!(reader.log_state(attempt_id(1)).expect("a read"), LogState::default());
    assert_eq!(chunks(store, 1, 1), []);
    // Two pieces of one log, and one of another, in one batch.
    let other = LogAppend { attempt: attempt_id(2), ..piece(1, 1) };
    commit(store, &Batch { logs: vec![piece(1, 3), other, piece(4, 9)], ..Batch::default() });
    append(store, piece(10, 10));
    assert_eq!(reader.log_state(attempt_id(1)).expect("a read"), LogState { last_seq: 10, complete: false });
    assert_eq!(reader.log_state(attempt_id(2)).expect("a read"), LogState { last_seq: 1, complete: false });
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
    assert_eq!(state, LogState { last_seq: 6, complete: true });
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
    assert_eq!(state(store, 1), LogState { last_seq: 3, complete: false }, "it is whole only at its last line");
    append(store, LogAppend { complete: true, ..piece(4, 3) });
    assert_eq!(state(store, 1), LogState { last_seq: 3, complete: true });
    // A step that printed nothing.
    append(store, LogAppend { attempt: attempt_id(2), complete: true, ..piece(1, 0) });
    assert_eq!(state(store, 2), LogState { last_seq: 0, complete: true });
    assert_eq!(chunks(store, 2, 1), []);
}

pub fn lines_after_the_end_open_it_again(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    append(store, LogAppend { complete: true, ..piece(1, 3) });
    append(store, piece(4, 5));
    let reader = store.reader();
    assert_eq!(reader.log_state(attempt_id(1)).expect("a read"), LogState { last_seq: 5, complete: false });
    append(store, LogAppend { complete: true, ..piece(6, 5) });
    assert_eq!(reader.log_state(attempt_id(1)).expect("a read"), LogState { last_seq: 5, complete: true });
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
