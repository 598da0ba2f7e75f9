//! An operator gives up what is silent.

use std::time::Duration;

use protocol::attempt::{End, StopReason};
use protocol::link::{ServerMessage, WorkerMessage};
use server::ledger::Forsake;

use crate::desk::{Desk, ONE, exited};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_was_only_offered_goes_elsewhere() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let offered = w.offer();
    desk.pass(SECOND * 3);
    assert_eq!(desk.recover(Forsake::Claimed, SECOND * 5), [], "not for so long yet");
    assert_eq!(desk.recover(Forsake::Running, SECOND), [], "it does not run");
    let mut other = desk.worker("other", "script", 1);
    let found = desk.recover(Forsake::Claimed, SECOND * 2);
    let who: Vec<_> = found.iter().map(|s| (s.job, s.worker_name.as_deref(), s.hostname.as_str())).collect();
    assert_eq!(who, [(job, Some("w"), "here")]);
    assert!(matches!(w.one(), ServerMessage::Withdraw { ticket } if ticket == offered.ticket));
    let spec = desk.start(&mut other);
    desk.ends(&other, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn what_runs_is_told_to_stop_and_then_decided() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.pass(SECOND * 20);
    assert_eq!(desk.recover(Forsake::Running, SECOND * 10).len(), 1);
    assert!(matches!(w.one(), ServerMessage::Stop { ticket, .. } if ticket == spec.ticket));
    desk.check(job, "running: cancelling");
    assert_eq!(desk.recover(Forsake::Running, SECOND * 10), [], "once is enough");
    let end = End { stopped: Some(StopReason::Cancelled), ..exited(143) };
    desk.says(&w, vec![WorkerMessage::Ended { ticket: spec.ticket, end }]);
    desk.check(job, "failed: failed");
    assert!(desk.events(job).iter().any(|e| e.reason.contains("ordered by ann")));
}

#[test]
fn what_is_cut_off_is_left_to_its_window() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.hang_up(&w);
    desk.pass(SECOND * 30);
    assert_eq!(desk.recover(Forsake::Running, SECOND), []);
    desk.check(job, "recovering: recovering");
}
