//! Triggers: where each stands comes back, and a trigger and its jobs are written together.

use std::collections::BTreeSet;

use engine::Time;

use super::Fixture;
use super::scene::{Life, after, commit, job_id, plain};
use crate::rows::TriggerRow;
use crate::{Batch, Store, StoreError, TriggerWrite};

pub(super) fn trigger(id: &str, version: u64, next_at: Option<Time>) -> TriggerRow {
    TriggerRow {
        id: id.to_owned(),
        version,
        task: "nightly".to_owned(),
        kind: "cron".to_owned(),
        definition: r#"{"cron":"0 3 * * *"}"#.to_owned(),
        paused_at: None,
        paused_by: None,
        planned_at: next_at,
        next_at,
        last_at: None,
        last_job: None,
        last_error: None,
        missed: 0,
        notice: None,
        notice_at: None,
    }
}

pub(super) fn written(row: TriggerRow, expected: Option<u64>) -> Batch {
    Batch { triggers: vec![TriggerWrite { row, expected, jobs: Vec::new() }], ..Batch::default() }
}

fn put(store: &mut dyn Store, row: TriggerRow, expected: Option<u64>) {
    assert!(commit(store, &written(row, expected)).triggers_moved.is_empty());
}

pub fn a_trigger_comes_back_as_it_was_written(fixture: &mut dyn Fixture) {
    let mut store = fixture.open();
    assert_eq!(store.reader().triggers().expect("a read"), []);
    let plain = trigger("b:cron:1", 1, Some(after(60)));
    put(&mut *store, plain.clone(), None);
    let full = TriggerRow {
        paused_at: Some(after(1)),
        paused_by: Some("ada".to_owned()),
        planned_at: Some(after(50)),
        last_at: Some(after(2)),
        last_job: Some(job_id(7)),
        last_error: Some("it has no input".to_owned()),
        missed: 12,
        notice: Some("12 times passed".to_owned()),
        notice_at: Some(after(3)),
        ..trigger("a:cron:1", 1, None)
    };
    put(&mut *store, full.clone(), None);
    fixture.crash(store);
    let store = fixture.open();
    let reader = store.reader();
    assert_eq!(reader.triggers().expect("a read"), [full.clone(), plain]);
    assert_eq!(reader.trigger("a:cron:1").expect("a read"), Some(full));
    assert_eq!(reader.trigger("nobody").expect("a read"), None);
}

pub fn triggers_are_due_in_their_order(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    for (id, at) in [("c", Some(20)), ("a", Some(30)), ("b", None), ("d", Some(10))] {
        put(store, trigger(id, 1, at.map(after)), None);
    }
    let mut due = |now, limit| -> Vec<String> {
        let rows = store.due_triggers(after(now), limit).expect("a look");
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(due(9, 10), [] as [&str; 0]);
    assert_eq!(due(20, 10), ["d", "c"]);
    assert_eq!(due(100, 2), ["d", "c"]);
    assert_eq!(store.next_check().expect("a look"), Some(after(10)));
    put(store, trigger("d", 2, None), Some(1));
    assert_eq!(store.next_check().expect("a look"), Some(after(20)));
}

pub fn a_trigger_that_moved_is_left_out_with_its_jobs(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    put(store, trigger("a", 1, Some(after(10))), None);
    let fired = |n: u64, version: u64| {
        let (life, batch) = Life::draft(n, &plain(), after(n));
        let row = trigger("a", version + 1, Some(after(100 * n)));
        let write = TriggerWrite { row, expected: Some(version), jobs: vec![life.job.id] };
        Batch { triggers: vec![write], ..batch }
    };
    let done = store.commit(&fired(1, 1)).expect("a write");
    assert!(done.conflicts.is_empty() && done.triggers_moved.is_empty());
    // Another server has seen it as it was before.
    let late = store.commit(&fired(2, 1)).expect("a write");
    assert_eq!(late.conflicts, BTreeSet::from([job_id(2)]));
    assert_eq!(late.triggers_moved, BTreeSet::from(["a".to_owned()]));
    assert!(store.load_job(job_id(2)).expect("a read").is_none(), "nothing of it is there");
    // And the same job, which both make under one id.
    let same = store.commit(&fired(1, 1)).expect("a write");
    assert_eq!(same.conflicts, BTreeSet::from([job_id(1)]));
    assert_eq!(store.reader().trigger("a").expect("a read"), Some(trigger("a", 2, Some(after(100)))));
    let new = store.commit(&written(trigger("a", 1, None), None)).expect("a write");
    assert_eq!(new.triggers_moved, BTreeSet::from(["a".to_owned()]), "one that is there is not new");
}

pub fn a_trigger_is_left_out_with_a_job_that_moved(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    put(store, trigger("a", 1, None), None);
    let (life, mut batch) = Life::draft(1, &plain(), after(1));
    // It goes on for one that is not as it was.
    batch.jobs[0].expected = Some(5);
    let (other, more) = Life::draft(2, &plain(), after(1));
    batch.jobs.extend(more.jobs);
    batch.steps.extend(more.steps);
    batch.events.extend(more.events);
    let jobs = vec![life.job.id, other.job.id];
    batch.triggers = vec![TriggerWrite { row: trigger("a", 2, None), expected: Some(1), jobs: jobs.clone() }];
    let done = store.commit(&batch).expect("a write");
    assert_eq!(done.conflicts, BTreeSet::from_iter(jobs));
    assert_eq!(done.triggers_moved, BTreeSet::from(["a".to_owned()]));
    let twice = Batch {
        triggers: [1, 2].map(|n| TriggerWrite { row: trigger("b", n, None), expected: None, jobs: Vec::new() }).into(),
        ..Batch::default()
    };
    assert!(matches!(store.commit(&twice), Err(StoreError::Refused { .. })), "one write each");
}
