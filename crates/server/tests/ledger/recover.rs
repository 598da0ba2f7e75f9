//! An operator gives up what is silent, and only that.

use std::time::Duration;

use protocol::attempt::{End, StopReason, Ticket};
use protocol::link::{Heartbeat, HeldState, RunnerBeat, ServerMessage, WorkerMessage};
use server::ledger::Forsake;

use crate::desk::{Desk, Mailbox, ONE, exited};
use crate::recovery::held;

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

/// A heartbeat of the worker, and what it last heard of the attempt's runner.
fn beat(desk: &mut Desk, w: &Mailbox, ticket: Ticket, runner_age: Option<Duration>) {
    let age_ms = |age: Duration| u64::try_from(age.as_millis()).expect("small");
    let runners = runner_age.map(|age| RunnerBeat { ticket, pid: 9, age_ms: age_ms(age) });
    let beat = Heartbeat {
        processed: 0,
        held: vec![ticket],
        free: 0,
        ahead: 0,
        draining: false,
        runners: runners.into_iter().collect(),
    };
    desk.says(w, vec![WorkerMessage::Heartbeat(beat)]);
}

#[test]
fn a_beat_that_no_row_tells_of_yet_counts() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    beat(&mut desk, &w, ticket, Some(SECOND));
    desk.pass(SECOND * 70);
    // Heard just now, and not written yet.
    beat(&mut desk, &w, ticket, Some(SECOND * 3));
    let rows = desk.reader.stale(desk.now - SECOND * 60, 10).expect("readable");
    assert_eq!(rows.len(), 1, "the row lags behind");
    assert_eq!(desk.silent_for(SECOND * 60), []);
    assert_eq!(desk.recover(Forsake::Running, SECOND * 60), []);
    desk.check(job, "running: running");
    let found = desk.silent_for(SECOND * 2);
    assert_eq!(found.iter().map(|s| desk.now.since(s.last_sign)).collect::<Vec<_>>(), [SECOND * 3]);
    desk.check(job, "running: running");
}

#[test]
fn a_silent_runner_is_given_up_however_well_its_worker_is() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    beat(&mut desk, &w, ticket, Some(SECOND));
    desk.pass(SECOND * 70);
    beat(&mut desk, &w, ticket, Some(SECOND * 71));
    assert_eq!(desk.recover(Forsake::Running, SECOND * 60).len(), 1);
    desk.check(job, "running: cancelling");
}

#[test]
fn the_worker_speaks_for_a_runner_that_was_never_heard() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    desk.pass(SECOND * 70);
    beat(&mut desk, &w, ticket, None);
    assert_eq!(desk.recover(Forsake::Running, SECOND * 60), []);
    desk.check(job, "running: running");
}

#[test]
fn after_a_restart_the_worker_speaks_until_its_runners_can_be_heard() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    let ticket = spec.ticket;
    beat(&mut desk, &w, ticket, Some(SECOND));
    desk.pass(SECOND * 6);
    desk.down(SECOND * 100);
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Running)]);
    desk.check(job, "running: running");
    assert_eq!(desk.recover(Forsake::Running, SECOND * 60), []);
    beat(&mut desk, &w, ticket, Some(SECOND * 106));
    assert_eq!(desk.silent_for(SECOND * 60).len(), 1, "now it is known");
}
