//! Jobs that others began: whose they are comes back, and what was decided together is written together.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::definition::{ChildBody, ChildTask, Definition, Inputs, StepDef, Work};
use engine::job::Parent;
use engine::{Event, JobId};
use serde_json::{Value, json};

use super::Fixture;
use super::scene::{FIRST, Life, after, commit, job_id, plain, step, task};
use crate::{Batch, JobFilter, StoreError};

/// A task of one step that begins a job of the plain one.
pub(super) fn calling() -> Arc<Definition> {
    let bound = ChildTask { definition: plain(), hash: [1; 32], inputs: Box::new(Anything) };
    let body = ChildBody { task: "plain".into(), with: json!({}), bound: Some(Arc::new(bound)) };
    task("calling", vec![StepDef { work: Work::Child(Arc::new(body)), ..step("call") }])
}

#[derive(Debug)]
struct Anything;

impl Inputs for Anything {
    fn bind(&self, given: Value) -> Result<Value, String> {
        Ok(given)
    }
}

/// A job that the first step of this one began, and the batch that would store it.
pub(super) fn begun_by(parent: &Life, n: u64) -> (Life, Batch) {
    let (mut child, mut batch) = Life::draft(n, &plain(), after(n));
    child.job.parent = Some(Parent { job: parent.job.id, step: FIRST });
    batch.jobs[0].row.parent = child.job.parent;
    (child, batch)
}

/// Everything of these batches in one.
pub(super) fn together(batches: impl IntoIterator<Item = Batch>, ties: Vec<(JobId, JobId)>) -> Batch {
    let mut all = Batch { ties, ..Batch::default() };
    for batch in batches {
        all.definitions.extend(batch.definitions);
        all.jobs.extend(batch.jobs);
        all.steps.extend(batch.steps);
        all.events.extend(batch.events);
    }
    all
}

fn cancel() -> Event {
    Event::Cancel { by: "eve".to_owned(), force: false }
}

pub fn a_child_knows_whose_it_is(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let parent = Life::submit(store, 1, &calling());
    parent.assert_stored(store);
    assert!(parent.job.step(FIRST).state.child().is_some(), "it waits for a job");
    for n in [3, 2] {
        let (child, batch) = begun_by(&parent, n);
        commit(store, &batch);
        child.assert_stored(store);
        let stored = store.load_job(job_id(n)).expect("a read").expect("the job");
        assert_eq!(stored.job.parent, child.job.parent);
    }
    // What began it stays, whatever is written later.
    let mut second = Life::read(store, 2, &plain());
    second.apply(store, &cancel());
    let reader = store.reader();
    assert_eq!(reader.children(job_id(1), 10).expect("a read"), [2, 3].map(job_id));
    assert_eq!(reader.children(job_id(1), 1).expect("a read"), [2].map(job_id));
    assert_eq!(reader.children(job_id(2), 10).expect("a read"), []);
    assert_eq!(reader.last_job().expect("a read"), Some(job_id(1)), "the last one that nobody began");
    let found = reader.jobs_by_prefix("", 2).expect("a read");
    assert_eq!(found, [1, 2].map(job_id), "who was begun by nobody comes first");
    let listed = reader.jobs(&JobFilter { limit: 10, ..JobFilter::default() }).expect("a read").items;
    let parents: Vec<Option<JobId>> = listed.iter().map(|job| job.parent.map(|parent| parent.job)).collect();
    assert_eq!(parents, [Some(job_id(1)), Some(job_id(1)), None]);
}

pub fn a_family_is_found_by_its_ids(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let parent = Life::submit(store, 1, &calling());
    Life::submit(store, 2, &plain());
    let mut kin: Vec<JobId> = (0..3).map(|n| parent.job.id.child(FIRST, n)).collect();
    let over = kin[0];
    for (n, id) in (3..).zip(&kin) {
        let (_, mut batch) = begun_by(&parent, n);
        batch.jobs[0].row.id = *id;
        batch.jobs[0].row.check_at = batch.jobs[0].row.check_at.filter(|_| *id != over);
        batch.steps.iter_mut().for_each(|step| step.job = *id);
        batch.events.iter_mut().for_each(|event| event.job = *id);
        commit(store, &batch);
    }
    kin[0] = parent.job.id;
    kin.sort_unstable();
    assert_eq!(store.open_kin(kin[1], 10).expect("a read"), kin, "what is over is left out");
    assert_eq!(store.open_kin(over, 2).expect("a read"), kin[..2]);
    assert_eq!(store.open_kin(job_id(2), 10).expect("a read"), [job_id(2)]);
    assert_eq!(store.open_kin(job_id(9), 10).expect("a read"), []);
}

pub fn who_is_tied_to_a_job_that_moved_is_left_out(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut moved = Life::submit(store, 1, &calling());
    let mut stale = Life { job: moved.job.clone(), meta: moved.meta.clone(), now: moved.now };
    let mut middle = Life::submit(store, 2, &plain());
    let mut steady = Life::submit(store, 3, &plain());
    moved.apply(store, &Event::CheckJob);
    let (_, begun) = begun_by(&moved, 4);
    let changes = [stale.change(&cancel()).1, middle.change(&cancel()).1, begun];
    let ties = vec![(job_id(2), job_id(4)), (job_id(1), job_id(2))];
    let (of_steady, batch) = steady.change(&cancel());
    let committed = commit(store, &together(changes.into_iter().chain([batch]), ties));
    assert_eq!(committed.conflicts, BTreeSet::from([1, 2, 4].map(job_id)));
    moved.assert_stored(store);
    middle.assert_stored(store);
    steady.job.absorb(&of_steady);
    steady.assert_stored(store);
    assert_eq!(store.load_job(job_id(4)).expect("a read"), None);
}

/// Two servers begin the same job: who comes second sees a conflict. Without a job that moved, it is a fault.
pub fn a_child_that_is_there_already_is_left_out_with_its_parent(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut parent = Life::submit(store, 1, &calling());
    let mut stale = Life { job: parent.job.clone(), meta: parent.meta.clone(), now: parent.now };
    let begin = |life: &mut Life| {
        let (child, begun) = begun_by(life, 2);
        let (changes, change) = life.change(&Event::CheckJob);
        (child, changes, together([change, begun], vec![(job_id(1), job_id(2))]))
    };
    let (child, changes, first) = begin(&mut parent);
    assert!(commit(store, &first).conflicts.is_empty());
    parent.job.absorb(&changes);
    let (_, _, second) = begin(&mut stale);
    assert_eq!(commit(store, &second).conflicts, BTreeSet::from([1, 2].map(job_id)));
    parent.assert_stored(store);
    child.assert_stored(store);
    let (_, _, third) = begin(&mut parent);
    assert!(matches!(store.commit(&third), Err(StoreError::Refused { .. })));
    parent.assert_stored(store);
}
