//! What the sweeper, the dispatcher and a returning worker's link ask for.

use std::time::Duration;

use engine::definition::{Patience, StepDef};
use engine::{Event, JobState, StepIx};

use super::Fixture;
use super::jobs::{job_in, key};
use super::scene::{FIRST, Life, T0, after, attempt_id, commit, job_id, needs, plain, step, task};
use crate::read::LogState;
use crate::rows::QueuedStep;
use crate::{Batch, Due, Found, LogAppend, Record, Wanted};

pub fn the_earliest_is_due_first(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    assert_eq!(store.next_check().expect("a read"), None);
    assert_eq!(store.due(after(1_000_000), 10).expect("a read"), Vec::new());
    // Patience runs out the other way round than the jobs came; the jobs themselves are looked at after an hour.
    for n in 1..=3 {
        let patience = Patience::For(Duration::from_secs(1000 - 100 * n));
        Life::submit(store, n, &task("patient", vec![StepDef { unmatched: patience, ..step("only") }]));
    }
    let step_due = |n: u64| Due { at: after(n + 1000 - 100 * n), job: job_id(n), step: Some(FIRST), queued: true };
    let job_due = |n: u64| Due { at: after(n + 3600), job: job_id(n), step: None, queued: false };

    assert_eq!(store.next_check().expect("a read"), Some(step_due(3).at));
    let just_before = engine::Time(step_due(3).at.0 - 1);
    assert_eq!(store.due(just_before, 10).expect("a read"), Vec::new());
    assert_eq!(store.due(step_due(3).at, 10).expect("a read"), [step_due(3)]);
    let all = [step_due(3), step_due(2), step_due(1), job_due(1), job_due(2), job_due(3)];
    assert_eq!(store.due(after(10_000), 10).expect("a read"), all);
    assert_eq!(store.due(after(10_000), 4).expect("a read"), all[..4]);
}

pub fn what_is_final_has_no_check(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    for (state, n) in [JobState::Success, JobState::Failed, JobState::Cancelled].into_iter().zip(1..) {
        job_in(store, n, state);
    }
    assert_eq!(store.next_check().expect("a read"), None);
    assert_eq!(store.due(engine::Time::MAX, 10).expect("a read"), Vec::new());
    assert_eq!(store.queued().expect("a read"), Vec::new());
    assert_eq!(store.held().expect("a read"), []);
}

pub fn queued_means_without_an_offer(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let wide = task("wide", vec![step("a"), step("b"), needs(step("c"), FIRST)]);
    let mut first = Life::submit(store, 1, &wide);
    Life::submit(store, 2, &plain());
    let at = |n: u64, ix: u32| QueuedStep { job: job_id(n), ix: StepIx(ix) };
    assert_eq!(store.queued().expect("a read"), [at(1, 0), at(1, 1), at(2, 0)]);

    let ticket = first.offer(store, FIRST, 1, 1);
    assert_eq!(store.queued().expect("a read"), [at(1, 1), at(2, 0)]);
    first.apply(store, &Event::Refused { ticket, reason: "busy".to_owned() });
    assert_eq!(store.queued().expect("a read"), [at(1, 0), at(1, 1), at(2, 0)]);
    first.run_to_end(store, 2, 0);
    assert_eq!(store.queued().expect("a read"), [at(1, 1), at(1, 2), at(2, 0)]);
}

pub fn offers_and_attempts_are_held(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut offered = Life::submit(store, 1, &plain());
    offered.offer(store, FIRST, 1, 1);
    let mut running = Life::submit(store, 2, &plain());
    let ticket = running.start(store, FIRST, 2, 2);
    job_in(store, 3, JobState::Recovering);
    job_in(store, 4, JobState::Cancelling);
    job_in(store, 5, JobState::Success);
    Life::submit(store, 6, &plain());

    let held = |jobs: &[u64]| jobs.iter().map(|n| (job_id(*n), FIRST)).collect::<Vec<_>>();
    assert_eq!(store.held().expect("a read"), held(&[1, 2, 3, 4]));
    running.end(store, ticket, 0);
    assert_eq!(store.held().expect("a read"), held(&[1, 3, 4]));
}

pub fn an_attempt_has_a_place_from_its_offer_on(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &task("two", vec![step("a"), step("b")]));
    assert_eq!(life.now, after(1));
    assert!(life.now > T0);
    let place = Some((job_id(1), StepIx(1)));
    let ticket = life.offer(store, StepIx(1), 1, 1);
    assert_eq!(store.place_of(attempt_id(1)).expect("a read"), place);
    life.apply(store, &Event::Accepted { ticket, epoch: engine::Epoch(1) });
    assert_eq!(store.place_of(attempt_id(1)).expect("a read"), place);
    life.end(store, ticket, 0);
    assert_eq!(store.place_of(attempt_id(1)).expect("a read"), place, "its log may still come");

    let refused = life.offer(store, FIRST, 2, 1);
    life.apply(store, &Event::Refused { ticket: refused, reason: "busy".to_owned() });
    assert_eq!(store.place_of(attempt_id(2)).expect("a read"), None, "it was never granted");
}

pub fn a_look_ahead_finds_what_single_looks_find(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    assert_eq!(store.look_ahead(&Wanted::default()).expect("a read"), Found::default());
    // The first is over and has a log, the second is offered, the third is a job with a key, and of the fourth nobody knows.
    let mut over = Life::submit(store, 1, &plain());
    let ticket = over.start(store, FIRST, 1, 1);
    over.end(store, ticket, 0);
    let log =
        LogAppend { first_seq: 1, last_seq: 0, blocks: Vec::new(), missing: 0, complete: true, attempt: attempt_id(1) };
    commit(store, &Batch { logs: vec![log], ..Batch::default() });
    Life::submit(store, 2, &plain()).offer(store, FIRST, 2, 2);
    let (_, mut batch) = Life::draft(3, &plain(), after(3));
    batch.idempotency.push(key("deploy", 3));
    commit(store, &batch);

    let token = key("deploy", 3).token;
    let names = |names: &[&str]| names.iter().map(|name| (token, (*name).to_owned())).collect();
    store.set_meta("word", "said").expect("a write");
    let (keys, attempts) = (names(&["deploy", "other"]), [1, 2, 4].map(attempt_id).into());
    let wanted = Wanted { keys, attempts, record: Some(&["word", "unsaid"]) };
    let found = store.look_ahead(&wanted).expect("a read");
    let reader = store.reader();
    let (last_event, servers) = (reader.last_event().expect("a read"), reader.servers().expect("a read"));
    assert!(last_event > 0);
    assert_eq!(found.record, Some(Record { last_event, servers, settings: [("word", "said".to_owned())].into() }));
    assert_eq!(found.keys.into_values().collect::<Vec<_>>(), [key("deploy", 3)]);
    let places = [(attempt_id(1), (job_id(1), FIRST)), (attempt_id(2), (job_id(2), FIRST))];
    assert_eq!(found.places, places.into());
    let whole = LogState { complete: true, ..LogState::default() };
    let none = LogState::default();
    assert_eq!(found.logs, [(attempt_id(1), whole), (attempt_id(2), none), (attempt_id(4), none)].into());
    let keys = Wanted { keys: names(&["deploy"]), ..Wanted::default() };
    let found = store.look_ahead(&keys).expect("a read");
    assert_eq!((found.keys.len(), found.logs.len(), found.record), (1, 0, None), "only what was asked for");
}
