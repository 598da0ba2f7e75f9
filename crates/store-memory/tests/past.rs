//! What a simulation does to the database: losing its newest transactions, coming back to a state, looking at its rows.

use engine::{AttemptId, Time};
use store::rows::{OutboxRow, TaskRow};
use store::{Batch, LogAppend, Store};
use store_memory::{FORGETTABLE_COMMITS, MemoryDatabase, MemoryStore};
use uuid::Uuid;

#[test]
fn what_is_forgotten_never_was() {
    let database = MemoryDatabase::new();
    let (mut store, mut sibling) = (database.open(), database.open());
    log(&mut store, 1);
    let first = sibling.reserve_fences(10, 0).expect("fences");
    log(&mut sibling, 2);
    mark(&mut store, 7);
    assert_eq!(database.commits(), 4);

    assert_eq!(database.forget_last(3), 3);
    assert_eq!(database.commits(), 1);
    let reader = store.reader();
    assert_eq!(reader.log_state(ATTEMPT).expect("a read").last_seq, 1);
    assert_eq!(reader.log_chunks(ATTEMPT, 1, usize::MAX).expect("a read").len(), 1);
    assert_eq!(reader.meta("mark").expect("a read"), None);
    assert_eq!(store.reserve_fences(10, 0).expect("fences"), first, "counters go back too");
    // Life goes on from there, and can be forgotten again.
    log(&mut sibling, 2);
    assert_eq!(database.forget_last(100), 3);
    assert_eq!(reader.log_state(ATTEMPT).expect("a read").last_seq, 0);
    assert_eq!(database.forget_last(1), 0);
}

#[test]
fn what_was_refused_is_nothing_to_forget() {
    let database = MemoryDatabase::new();
    let mut store = database.open();
    commit(&mut store, &Batch { outbox: vec![outbox(1)], ..Batch::default() });
    let twice = Batch { outbox: vec![outbox(2), outbox(1)], ..Batch::default() };
    store.commit(&twice).expect_err("it is there already");
    commit(&mut store, &Batch::default());
    assert_eq!(database.commits(), 1);
    let ids: Vec<Uuid> = database.rows().outbox().map(|row| row.id).collect();
    assert_eq!(ids, [outbox(1).id]);
    assert_eq!(database.forget_last(9), 1);
    assert_eq!(database.rows().outbox().count(), 0);
}

#[test]
fn memory_of_the_past_has_an_end() {
    let database = MemoryDatabase::new();
    let mut store = database.open();
    for n in 0..FORGETTABLE_COMMITS + 5 {
        mark(&mut store, n);
    }
    assert_eq!(database.forget_last(u64::MAX), FORGETTABLE_COMMITS);
    assert_eq!(database.commits(), 5);
    assert_eq!(store.reader().meta("mark").expect("a read").as_deref(), Some("4"));
}

#[test]
fn a_snapshot_is_a_state_to_come_back_to() {
    let database = MemoryDatabase::new();
    let mut store = database.open();
    log(&mut store, 1);
    let snapshot = database.snapshot();
    for _ in 0..2 {
        log(&mut store, 2);
        let task =
            TaskRow { name: "t".to_owned(), source: String::new(), pushed_at: Time(1), pushed_by: "ada".to_owned() };
        store.put_task(&task).expect("a write");
        database.restore(&snapshot);
        assert_eq!(database.commits(), 1);
        assert_eq!(store.reader().log_state(ATTEMPT).expect("a read").last_seq, 1);
        assert_eq!(store.reader().tasks().expect("a read"), []);
    }
    assert_eq!(database.forget_last(1), 0, "there is no way back beyond it");
    log(&mut store, 2);
    assert_eq!(database.forget_last(9), 1);
}

const ATTEMPT: AttemptId = AttemptId(Uuid::from_u128(1));

/// One line, with this number.
fn log(store: &mut MemoryStore, seq: u64) {
    let append =
        LogAppend { attempt: ATTEMPT, first_seq: seq, last_seq: seq, blocks: vec![1], missing: 0, complete: false };
    commit(store, &Batch { logs: vec![append], ..Batch::default() });
}

fn mark(store: &mut MemoryStore, n: u64) {
    commit(store, &Batch { meta: vec![("mark", n.to_string())], ..Batch::default() });
}

fn outbox(n: u128) -> OutboxRow {
    let (id, job) = (Uuid::from_u128(n), engine::JobId(Uuid::from_u128(9)));
    OutboxRow { id, job, kind: "webhook", body: "{}".to_owned(), created_at: Time(1) }
}

fn commit(store: &mut MemoryStore, batch: &Batch) {
    store.commit(batch).expect("a good batch");
}
