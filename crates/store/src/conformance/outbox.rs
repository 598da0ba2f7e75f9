//! What follows on a job's end: jobs that know whose end it was, and words that are delivered once somebody took them.

use engine::JobId;
use uuid::Uuid;

use super::Fixture;
use super::scene::{Life, after, commit, id, job_id, plain};
use crate::read::{OutboxCounts, OutboxView};
use crate::rows::{OutboxMove, OutboxRow};
use crate::{Batch, JobFilter, Store};

fn word(n: u64, job: u64) -> OutboxRow {
    OutboxRow { id: id(n), job: job_id(job), kind: "webhook", body: format!("{{\"n\":{n}}}"), created_at: after(n) }
}

fn claim(n: u64, tries: u32, until: u64) -> OutboxMove {
    let next_at = Some(after(until));
    OutboxMove { id: id(n), expected: tries, tries: tries + 1, next_at, delivered_at: None, error: None }
}

fn moves(moves: Vec<OutboxMove>) -> Batch {
    Batch { outbox_moves: moves, ..Batch::default() }
}

fn due(store: &mut dyn Store, at: u64) -> Vec<Uuid> {
    store.due_outbox(after(at), 10).expect("a look").into_iter().map(|view| view.id).collect()
}

pub fn a_delivery_goes_on_from_where_it_was(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    assert_eq!(store.next_outbox().expect("a look"), None);
    commit(store, &Batch { outbox: vec![word(2, 1), word(1, 1)], ..Batch::default() });
    assert_eq!(store.next_outbox().expect("a look"), Some(after(1)));
    assert_eq!((due(store, 0), due(store, 1), due(store, 9)), (vec![], vec![id(1)], vec![id(1), id(2)]));

    commit(store, &moves(vec![claim(1, 0, 30)]));
    assert_eq!((due(store, 9), due(store, 30)), (vec![id(2)], vec![id(2), id(1)]), "it is tried until then");
    let late = commit(store, &moves(vec![claim(1, 0, 60), claim(2, 0, 40)]));
    assert_eq!(
        late.outbox_moved.into_iter().collect::<Vec<Uuid>>(),
        [id(1)],
        "somebody else was faster, with this one"
    );

    let arrived =
        OutboxMove { id: id(1), expected: 1, tries: 1, next_at: None, delivered_at: Some(after(31)), error: None };
    commit(store, &moves(vec![arrived]));
    assert!(commit(store, &moves(vec![claim(1, 1, 99)])).outbox_moved.contains(&id(1)), "it is there");
    assert_eq!(store.next_outbox().expect("a look"), Some(after(40)));
    let stored = store.reader().outbox(id(1)).expect("a look").expect("it is kept");
    let OutboxRow { body, created_at, .. } = word(1, 1);
    let (job, kind, delivered_at) = (job_id(1), "webhook".to_owned(), Some(after(31)));
    let expected =
        OutboxView { id: id(1), job, kind, body, created_at, tries: 1, next_at: None, delivered_at, error: None };
    assert_eq!(stored, expected);
}

pub fn what_is_given_up_is_listed_until_it_is_tried_again(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    commit(store, &Batch { outbox: vec![word(1, 1), word(2, 1), word(3, 2)], ..Batch::default() });
    let dead = |n: u64| {
        let error = Some("nobody answers".to_owned());
        OutboxMove { id: id(n), expected: 0, tries: 16, next_at: None, delivered_at: None, error }
    };
    commit(store, &moves(vec![dead(1), dead(3)]));
    let reader = store.reader();
    let listed = |limit: usize| -> Vec<Uuid> {
        reader.dead_outbox(limit).expect("a look").into_iter().map(|view| view.id).collect()
    };
    assert_eq!((listed(10), listed(1)), (vec![id(3), id(1)], vec![id(3)]), "the newest first");
    assert_eq!(reader.outbox_counts().expect("a look"), OutboxCounts { waiting: 1, dead: 2 });
    let of_job: Vec<Uuid> = reader.outbox_of(job_id(1), 10).expect("a look").into_iter().map(|view| view.id).collect();
    assert_eq!(of_job, [id(1), id(2)]);
    commit(store, &moves(vec![OutboxMove { next_at: Some(after(50)), ..claim(1, 16, 50) }]));
    assert_eq!((listed(10), due(store, 50)), (vec![id(3)], vec![id(2), id(1)]));
}

pub fn a_job_that_follows_on_another_knows_it(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let first = Life::submit(store, 1, &plain());
    let (mut hook, mut batch) = Life::draft(2, &plain(), after(2));
    hook.job.hook_of = Some(first.job.id);
    batch.jobs[0].row.hook_of = hook.job.hook_of;
    commit(store, &batch);
    hook.assert_stored(store);
    let reader = store.reader();
    assert_eq!(reader.hooks(first.job.id, 10).expect("a look"), [hook.job.id]);
    assert_eq!(reader.hooks(hook.job.id, 10).expect("a look"), []);
    assert_eq!(reader.last_job().expect("a look"), Some(first.job.id), "nobody submitted the other one");
    let filter = JobFilter { limit: 10, ..JobFilter::default() };
    let listed: Vec<Option<JobId>> =
        reader.jobs(&filter).expect("a look").items.into_iter().map(|job| job.hook_of).collect();
    assert_eq!(listed, [Some(first.job.id), None]);
}
