//! Files that steps leave: the set that a step names is known to be wanted, and nothing else is.

use engine::Event;
use engine::attempt::{ArtifactSet, Artifacts, Report};

use super::Fixture;
use super::scene::{FIRST, Life, after, commit, plain, report};
use crate::rows::LateOutcome;
use crate::{Batch, Store};

fn wanted(store: &dyn Store, sets: &[&str]) -> Vec<String> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    store.reader().wanted_artifacts(&sets).expect("a look")
}

pub fn what_a_step_left_is_wanted(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let (kept, other) = ("ab".repeat(32), "cd".repeat(32));
    let mut life = Life::submit(store, 1, &plain());
    let ticket = life.start(store, FIRST, 1, 1);
    assert_eq!(wanted(store, &[&kept, &other]), Vec::<String>::new());
    let set = ArtifactSet { id: [0xab; 32], files: 3, bytes: 12_345 };
    let report = Report { artifacts: Some(Artifacts::Stored(set)), ..report(0) };
    life.apply(store, &Event::Ended { ticket, report });
    life.assert_stored(store);
    assert_eq!(life.job.steps[0].artifacts, Some(set));
    assert_eq!(wanted(store, &[&other, &kept]), [kept]);
}

pub fn what_came_late_is_wanted_too(fixture: &mut dyn Fixture) {
    let store = &mut *fixture.open();
    let mut life = Life::submit(store, 1, &plain());
    let ticket = life.start(store, FIRST, 1, 1);
    life.lose(store, ticket);
    let set = "ef".repeat(32);
    let outcome = format!(r#"{{"artifacts":{{"stored":{{"id":"{set}","files":1,"bytes":2}}}}}}"#);
    let late = LateOutcome { attempt: ticket.attempt, outcome, at: after(5) };
    commit(store, &Batch { late_outcomes: vec![late], ..Batch::default() });
    assert_eq!(wanted(store, &[&set, "what is no hash"]), [set]);
}
