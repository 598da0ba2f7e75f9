//! One identity, two workers: the second is refused, and no attempt changes state for it.

use std::time::Duration;

use protocol::link::{HeldState, Hello, RefusedCode, ServerMessage, VerdictKind, WorkerMessage};
use server::dispatch::LinkId;
use server::ledger::{Command, LinkEvent, LinkSender};
use uuid::Uuid;

use crate::desk::{Desk, ONE, hello};
use crate::recovery::held;

const SECOND: Duration = Duration::from_secs(1);

fn other_process() -> Hello {
    Hello { session: Uuid::from_u128(8), ..hello("w", "script", 1, Vec::new()) }
}

#[test]
fn a_second_process_is_refused_while_the_first_answers() {
    let mut desk = Desk::new();
    let mut first = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut first);
    let mut second = desk.knock(first.worker, other_process());
    assert_eq!(second.refused(), None, "it waits for the first one's word");
    let ServerMessage::Ping { n } = first.one() else { panic!("the first one is asked") };
    // Its own pongs are no answer to this.
    desk.says(&first, vec![WorkerMessage::Pong { n: 1 }]);
    assert_eq!(second.refused(), None);
    desk.says(&first, vec![WorkerMessage::Pong { n }]);
    let (code, message) = second.refused().expect("it answered");
    assert_eq!(code, RefusedCode::DuplicateIdentity);
    assert!(message.contains("(machine machine)"), "{message}");
    desk.check(job, "running: running");
    desk.hang_up_link(second.link);
    desk.check(job, "running: running");
}

#[test]
fn a_restarted_worker_comes_in_when_its_old_socket_closes() {
    let mut desk = Desk::new();
    let mut first = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut first);
    let again = Hello { held: vec![held(&spec, HeldState::Running)], ..other_process() };
    let second = desk.knock(first.worker, again);
    desk.hang_up(&first);
    let second = second.welcomed();
    assert_eq!(second.welcome.verdicts[0].verdict, VerdictKind::Continue);
    desk.check(job, "running: running");
}

#[test]
fn a_restarted_worker_comes_in_when_its_old_socket_stays_silent() {
    let mut desk = Desk::new();
    let first = desk.worker("w", "script", 1);
    let mut early = desk.knock(first.worker, other_process());
    desk.pass(SECOND * 20);
    assert_eq!(early.refused(), None);
    // It gives up waiting, and knocks again: the time of the first knock counts.
    let late = desk.knock(first.worker, other_process());
    desk.hang_up_link(early.link);
    desk.pass(SECOND * 10);
    late.welcomed();
}

#[test]
fn copies_and_old_folders_are_refused() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    let first = w.welcome.epoch;
    desk.hang_up(&w);
    let own = || hello("w", "script", 1, vec![held(&spec, HeldState::Ended)]);
    let w = desk.knock(w.worker, Hello { last_epoch: first, ..own() }).welcomed();
    desk.heartbeat(&w);
    desk.hang_up(&w);
    for stranger in [
        Hello { machine: "elsewhere".to_owned(), hostname: "there".to_owned(), ..own() },
        Hello { state_id: Uuid::from_u128(5), ..own() },
        // It was further than that: it has spoken on the second link.
        Hello { last_epoch: first, session: Uuid::from_u128(9), ..own() },
    ] {
        let (code, message) = desk.knock(w.worker, stranger).refused().expect("refused at once");
        assert_eq!(code, RefusedCode::DuplicateIdentity, "{message}");
        desk.check(job, "recovering: recovering");
    }
    desk.knock(w.worker, Hello { last_epoch: w.welcome.epoch, ..own() }).welcomed();
}

#[test]
fn a_welcome_that_was_lost_makes_no_copy_of_the_worker() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    desk.start(&mut w);
    for _ in 0..3 {
        desk.hang_up(&w);
        w = desk.knock(w.worker, Hello { last_epoch: 1, ..hello("w", "script", 1, Vec::new()) }).welcomed();
    }
}

/// A newer worker says more along with its hello than this server knows, and dies before it has its welcome.
#[test]
fn what_may_be_said_before_a_welcome_does_not_show_that_it_came() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    for _ in 0..3 {
        desk.says(&w, vec![WorkerMessage::Unknown]);
        desk.says(&w, vec![WorkerMessage::Pong { n: 1 }]);
        desk.hang_up(&w);
        w = desk.knock(w.worker, Hello { last_epoch: 1, ..hello("w", "script", 1, Vec::new()) }).welcomed();
    }
}

#[test]
fn a_hello_of_a_link_that_is_gone_by_now_is_none() {
    let mut desk = Desk::new();
    let w = desk.worker("w", "script", 1);
    let (sender, _) = LinkSender::channel();
    let (link, hello) = (LinkId(77), Box::new(hello("w", "script", 1, Vec::new())));
    let knocked = LinkEvent::Hello { link, worker: w.worker, hello, sender };
    desk.round(vec![Command::Link(knocked), Command::Link(LinkEvent::Closed { link })]);
    let row = desk.reader.workers().expect("readable").remove(0);
    assert_eq!((row.epoch.0, row.left_heard), (w.welcome.epoch, None), "the link that it has counts");
}
