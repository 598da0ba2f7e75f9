//! Signs of life: one row per attempt, sender and role, and a history of what came before a break.

use std::time::Duration;

use engine::Time;

use super::Fixture;
use super::scene::{FIRST, Life, after, attempt_id, commit, plain, worker_id};
use crate::rows::{BeatRole, BeatRow};
use crate::{Batch, Beats, Store};

const SILENCE: Duration = Duration::from_secs(60);

pub fn beats_add_up(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    flush(store, vec![beat(10, 10, 1), BeatRow { role: BeatRole::Runner, pid: 9, ..beat(12, 12, 1) }]);
    flush(store, vec![beat(40, 70, 2)]);
    let stretch = BeatRow { count: 3, longest_gap: Duration::from_secs(30), ..beat(10, 70, 3) };
    let runner = BeatRow { role: BeatRole::Runner, pid: 9, ..beat(12, 12, 1) };
    assert_eq!(beats(store), [stretch.clone(), runner]);
    // What is late or doubled takes nothing back.
    flush(store, vec![beat(20, 20, 1)]);
    assert_eq!(beats(store)[0], stretch);
}

pub fn a_break_begins_a_new_stretch(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    flush(store, vec![beat(10, 40, 2)]);
    // Another process of the same sender.
    let restarted = BeatRow { pid: 2, ..beat(50, 50, 1) };
    flush(store, vec![restarted.clone()]);
    assert_eq!(beats(store), [restarted]);
    // The same one after a long silence; how long it was is not forgotten.
    flush(store, vec![BeatRow { pid: 2, ..beat(200, 200, 1) }]);
    let late = BeatRow { pid: 2, longest_gap: Duration::from_secs(150), ..beat(200, 200, 1) };
    assert_eq!(beats(store), [late]);
    // Three stretches: two of them only in the history.
    assert_eq!(store.prune_beats(after(60), 1, None).expect("pruned"), 1);
    assert_eq!(store.prune_beats(after(60), 9, None).expect("pruned"), 1);
    assert_eq!(store.prune_beats(after(60), 9, None).expect("pruned"), 0);
    assert_eq!(store.prune_beats(after(300), 9, None).expect("pruned"), 1);
    assert_eq!(beats(store), []);
}

pub fn the_longest_silent_is_the_most_stale(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    Life::submit(store, 1, &plain()).offer(store, FIRST, 1, 1);
    Life::submit(store, 2, &plain()).start(store, FIRST, 2, 2);
    assert_eq!(stale(store, after(0)), []);
    assert_eq!(stale(store, after(50)).len(), 2, "nothing was ever heard: their own last change counts");
    let of = |n, beat: BeatRow| BeatRow { attempt: attempt_id(n), sender: worker_id(n), ..beat };
    let runner = BeatRow { role: BeatRole::Runner, ..beat(20, 20, 1) };
    let rows = vec![of(1, beat(30, 30, 1)), of(2, beat(40, 40, 1)), of(2, runner)];
    flush(store, rows);
    assert_eq!(stale(store, after(50)), [("running".to_owned(), 20), ("queued".to_owned(), 30)]);
    assert_eq!(stale(store, after(25)), [("running".to_owned(), 20)]);
}

fn beat(first: u64, last: u64, count: u64) -> BeatRow {
    BeatRow {
        attempt: attempt_id(1),
        sender: worker_id(1),
        role: BeatRole::Claimer,
        hostname: "here".to_owned(),
        pid: 1,
        first_at: after(first),
        last_at: after(last),
        count,
        longest_gap: Duration::ZERO,
    }
}

fn flush(store: &mut dyn Store, rows: Vec<BeatRow>) {
    commit(store, &Batch { beats: Beats { rows, silence: SILENCE }, ..Batch::default() });
}

fn beats(store: &mut dyn Store) -> Vec<BeatRow> {
    store.reader().beats(attempt_id(1)).expect("a read")
}

/// State and last sign of life of each, in seconds.
fn stale(store: &mut dyn Store, before: Time) -> Vec<(String, u64)> {
    let stale = store.reader().stale(before, 10).expect("a look");
    stale.iter().map(|s| (s.state.clone(), s.last_sign.since(after(0)).as_secs())).collect()
}
