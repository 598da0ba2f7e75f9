//! The same story from the same seed is the same to the last byte: nothing depends on how a map happens to be ordered.

use std::time::Duration;

use server::ledger::{Command, LinkEvent};

use crate::desk::{Desk, Mailbox};

const MANY: u32 = 12;

/// Workers come, are offered work, the server is started anew, they are all lost at once, and come back; what everyone was told, in order.
fn story() -> Vec<String> {
    let mut desk = Desk::new();
    let mut fleet: Vec<Mailbox> =
        (0..MANY).map(|n| desk.worker(&format!("w{n}"), &format!("script t{n}"), 2)).collect();
    let jobs: Vec<_> = (0..MANY)
        .map(|_| desk.submit("name: wide\nsteps:\n  a: { run: 'true', effects: none }\n  b: { run: 'true' }\n"))
        .collect();
    let mut told = Vec::new();
    for mailbox in &mut fleet {
        told.push(format!("{:?}", mailbox.take()));
    }
    // What the next start finds, it finds in some order.
    desk.restart();
    for mailbox in &mut fleet {
        *mailbox = desk.connect(mailbox.worker, "again", "script", 2, Vec::new());
    }
    desk.round(fleet.iter().map(|m| Command::Link(LinkEvent::Closed { link: m.link })).collect());
    desk.pass(Duration::from_secs(300));
    for job in jobs {
        told.push(format!("{:?}", desk.events(job)));
        told.push(format!("{:?}", desk.attempts(job)));
    }
    for mut mailbox in fleet {
        let name = mailbox.worker.to_string();
        told.push(format!("{:?}", mailbox.take()));
        told.push(format!("{:?}", desk.connect(mailbox.worker, &name, "script", 2, Vec::new()).take()));
    }
    told
}

#[test]
fn the_same_story_twice_is_the_same_story() {
    let (first, second) = (story(), story());
    for (n, (one, other)) in first.iter().zip(&second).enumerate() {
        assert_eq!(one, other, "line {n}");
    }
}
