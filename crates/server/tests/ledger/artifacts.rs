//! Files that steps leave: recorded with their end, and named to those that fetch them.

use protocol::attempt::{ArtifactSet, Artifacts, End, Fetch, Ticket};
use protocol::link::WorkerMessage;
use store::Store;

use crate::children::start;
use crate::desk::{Desk, Mailbox, exited};

const TASK: &str = "\
name: files
steps:
  make: { run: 'true', artifacts: [ out ], retry: 2 }
  each: { run: 'true', for_each: [a, b], artifacts: { paths: [ out ], when: always }, allow_failure: true }
  use:
    needs: [make, each]
    fetch: [make, { from: each, to: parts }]
    run: 'true'
";

fn set(digit: char) -> ArtifactSet {
    ArtifactSet { id: digit.to_string().repeat(64), files: 2, bytes: 90 }
}

fn ends<S: Store>(desk: &mut Desk<S>, w: &Mailbox, ticket: Ticket, code: i32, artifacts: Artifacts) {
    let end = End { artifacts: Some(artifacts), ..exited(code) };
    desk.says(w, vec![WorkerMessage::Ended { ticket, end }]);
}

fn wanted<S: Store>(desk: &Desk<S>, digits: &str) -> String {
    let sets: Vec<String> = digits.chars().map(|digit| set(digit).id).collect();
    let found = desk.reader.wanted_artifacts(&sets).expect("a look");
    found.iter().filter_map(|id| id.chars().next()).collect()
}

#[test]
fn what_steps_left_is_named_to_those_that_fetch_it() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(TASK);
    let mut first = true;
    // One slot: one after the other, whatever their order.
    let spec = loop {
        let spec = start(&mut desk, &mut w);
        let (code, artifacts) = match spec.step.as_str() {
            // The first try leaves nothing that could be stored, and is one of two.
            "make" if std::mem::take(&mut first) => (0, Artifacts::Failed("no room".to_owned())),
            "make" => (0, Artifacts::Stored(set('a'))),
            "each[0]" => (0, Artifacts::Stored(set('b'))),
            "each[1]" => (3, Artifacts::Stored(set('c'))),
            _ => break spec,
        };
        assert!(spec.artifacts.is_some() && spec.fetch.is_empty());
        ends(&mut desk, &w, spec.ticket, code, artifacts);
        desk.pass(std::time::Duration::from_millis(10));
    };
    assert_eq!(wanted(&desk, "abcd"), "abc");
    let fetch = |step: &str, digit, to: Option<&str>| Fetch {
        step: step.to_owned(),
        set: set(digit),
        to: to.map(str::to_owned),
    };
    let expected =
        [fetch("make", 'a', None), fetch("each[0]", 'b', Some("parts/0")), fetch("each[1]", 'c', Some("parts/1"))];
    assert_eq!((spec.step.as_str(), spec.fetch.as_slice()), ("use", expected.as_slice()));
    assert_eq!(
        desk.attempts(job).iter().filter(|attempt| attempt.error_code.as_deref() == Some("artifacts")).count(),
        1
    );
}
