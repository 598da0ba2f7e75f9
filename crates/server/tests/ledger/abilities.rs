//! Steps that need more than tags go to no worker that would leave it out without a word.

use std::time::Duration;

use protocol::features;
use protocol::link::Hello;

use crate::desk::{Desk, Mailbox, hello};

const SECOND: Duration = Duration::from_secs(1);

/// What a step says, what its worker must be able to do for that, and how it is told.
const WISHES: [(&str, &str, &str); 4] = [
    ("secrets: [KEY]", features::SECRETS, "be handed secrets"),
    ("artifacts: [out]", features::ARTIFACTS, "store and fetch artifacts"),
    ("needs: [first], fetch: [first]", features::ARTIFACTS, "store and fetch artifacts"),
    ("cleanup: undo", features::CLEANUP, "clean up after a step"),
];

fn one_that_lacks(desk: &mut Desk, name: &str, feature: &str) -> Mailbox {
    let id = desk.enrol(name);
    let features = features::all().into_iter().filter(|has| has != feature).collect();
    desk.knock(id, Hello { features, ..hello(name, "script", 1, Vec::new()) }).welcomed()
}

fn task(wish: &str) -> String {
    let first = if wish.contains("fetch") { "  first: { run: x, artifacts: [out] }\n" } else { "" };
    format!("name: t\nsteps:\n{first}  last: {{ run: y, {wish} }}\n")
}

#[test]
fn a_worker_that_cannot_do_it_is_not_asked() {
    for (wish, feature, words) in WISHES {
        let mut desk = Desk::new();
        let mut old = one_that_lacks(&mut desk, "old", feature);
        let job = desk.submit(&task(wish));
        old.none();
        desk.pass(SECOND * 31);
        let events = desk.events(job);
        let failed = events.iter().find(|event| event.verb.as_deref() == Some("fail")).expect("it failed");
        let needs = format!("it needs [script] that can {words}");
        let none =
            format!("of 1 workers that take new work none can {words}: one of an earlier version is to be upgraded");
        let message = format!("No active worker with required tags to run this step: {needs}; {none}");
        assert_eq!(failed.reason, message, "{wish}");
        let mut new = desk.worker("new", "script", 1);
        desk.submit(&task(wish));
        new.offer();
        old.none();
    }
}

#[test]
fn all_else_goes_to_anybody() {
    let mut desk = Desk::new();
    let id = desk.enrol("old");
    let mut old = desk.knock(id, Hello { features: Vec::new(), ..hello("old", "script", 1, Vec::new()) }).welcomed();
    desk.submit("name: t\nsteps:\n  a: { run: x }\n");
    old.offer();
}

#[test]
fn a_worker_that_comes_back_in_an_earlier_version_is_asked_no_more() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.hang_up(&w);
    let before = Hello { features: Vec::new(), last_epoch: w.welcome.epoch, ..hello("w", "script", 1, Vec::new()) };
    w = desk.knock(w.worker, before).welcomed();
    desk.submit(&task("cleanup: undo"));
    w.none();
    desk.hang_up(&w);
    let after = Hello { last_epoch: w.welcome.epoch, ..hello("w", "script", 1, Vec::new()) };
    desk.knock(w.worker, after).welcomed().offer();
}
