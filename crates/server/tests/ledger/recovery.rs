//! Links that break, servers that restart: running steps go on.

use std::time::Duration;

use protocol::attempt::AttemptSpec;
use protocol::link::{HeldAttempt, HeldState, Loss, ServerMessage, VerdictKind, WorkerMessage};

use crate::desk::{Desk, ONE};

pub(crate) fn held(spec: &AttemptSpec, state: HeldState) -> HeldAttempt {
    HeldAttempt {
        ticket: spec.ticket,
        job: spec.job,
        step: spec.step.clone(),
        state,
        log_first_seq: 0,
        log_last_seq: 0,
        events: 0,
        unsure: false,
    }
}

#[test]
fn a_worker_that_comes_back_goes_on() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.hang_up(&w);
    desk.check(job, "recovering: recovering");
    desk.pass(Duration::from_secs(100));
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Running)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::Continue);
    desk.check(job, "running: running");
    desk.pass(Duration::from_secs(100));
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn a_server_restart_costs_no_step() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.restart();
    desk.check(job, "recovering: recovering");
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Ended)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::SendResult);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn queued_steps_survive_a_restart() {
    let mut desk = Desk::new();
    let job = desk.submit(ONE);
    desk.restart();
    let mut w = desk.worker("w", "script", 1);
    let spec = desk.start(&mut w);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn an_offer_on_a_lost_link_goes_to_another_worker_at_once() {
    let mut desk = Desk::new();
    let mut first = desk.worker("first", "script", 1);
    let job = desk.submit(ONE);
    let offered = first.offer();
    let mut second = desk.worker("second", "script", 1);
    desk.hang_up(&first);
    let spec = desk.start(&mut second);
    assert_ne!(spec.ticket, offered.ticket);
    // The first comes back with what it had been offered: it never started, so it is let go.
    let first = desk.connect(first.worker, "first", "script", 1, vec![held(&offered, HeldState::Waiting)]);
    assert_eq!(first.welcome.verdicts[0].verdict, VerdictKind::Forget);
    desk.ends(&second, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn nobody_comes_back_within_the_window() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let writes = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(119));
    desk.check(writes, "recovering: recovering");
    desk.pass(Duration::from_secs(1));
    desk.check(writes, "failed: failed");
    let reason = desk.events(writes).into_iter().rev().find(|e| e.kind == "step").expect("an event").reason;
    assert!(reason.starts_with("Job failed: agent disconnected and did not reconnect within the recovery window"));
    // The truth comes late: kept as evidence, and the job stays as it is.
    let mut w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Running)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::Finish);
    desk.ends(&w, spec.ticket, 0);
    assert!(matches!(w.take()[0], ServerMessage::StaleDispatch { .. }));
    desk.check(writes, "failed: failed");
    assert!(desk.attempts(writes)[0].late_outcome.is_some());
}

/// The worker lost what it was, and was enrolled anew with the folder of the attempt: it sees the runner die. It is not who was given
/// the step, so the window decides; but nobody doubts then that it is over.
#[test]
fn what_was_over_for_certain_before_it_is_given_up_stays_so() {
    let mut desk = Desk::new();
    let w = desk.worker("w", "script", 1);
    desk.hang_up(&w);
    let mut w = desk.connect(w.worker, "w", "script", 1, Vec::new());
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.hang_up(&w);
    let anew = desk.enrol("w again");
    let anew = desk.connect(anew, "w again", "script", 1, vec![held(&spec, HeldState::Running)]);
    let lost =
        WorkerMessage::Lost { ticket: spec.ticket, loss: Loss::RunnerLost, detail: "its runner died".to_owned() };
    desk.says(&anew, vec![lost]);
    desk.check(job, "recovering: recovering");
    desk.pass(Duration::from_secs(130));
    desk.check(job, "failed: failed");
    assert!(desk.attempts(job)[0].confirmed);
    let told = desk.events(job);
    assert!(!told.iter().any(|event| event.reason.contains("may still run")), "{told:?}");
}

#[test]
fn an_idempotent_step_is_repeated_after_the_window() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit("name: i\nsteps:\n  a: { run: 'true', effects: idempotent }\n");
    let first = desk.start(&mut w);
    desk.hang_up(&w);
    let mut other = desk.worker("other", "script", 1);
    desk.pass(Duration::from_secs(120));
    let second = desk.start(&mut other);
    // The first copy is told to stop when its worker returns, since a successor exists.
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&first, HeldState::Running)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::StopKill);
    desk.ends(&other, second.ticket, 0);
    desk.check(job, "success: success");
    assert_eq!(desk.attempts(job).len(), 2);
}

#[test]
fn what_a_worker_does_not_have_any_more_is_lost_at_once() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.hang_up(&w);
    desk.connect(w.worker, "w", "script", 1, Vec::new());
    desk.check(job, "failed: failed");
}

#[test]
fn the_end_of_an_old_link_does_not_hurt_the_new_one() {
    let mut desk = Desk::new();
    let mut old = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut old);
    let new = desk.connect(old.worker, "w", "script", 1, vec![held(&spec, HeldState::Running)]);
    desk.hang_up(&old);
    desk.check(job, "running: running");
    // Nor is the old link heard any more.
    desk.says(&old, vec![WorkerMessage::Ended { ticket: spec.ticket, end: crate::desk::exited(1) }]);
    desk.check(job, "running: running");
    desk.ends(&new, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn only_the_current_attempt_is_told_that_it_may_go_on() {
    let renew = |spec: &AttemptSpec, n| {
        vec![WorkerMessage::Renew { renewals: vec![protocol::link::Renewal { ticket: spec.ticket, n }] }]
    };
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let spec = w.offer();
    assert_eq!(spec.lease_ms, Some(96_000), "0.8 of the window");
    desk.says(&w, renew(&spec, 1));
    assert_eq!(w.renewed(), None, "not started");
    desk.says(&w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
    w.go();
    desk.says(&w, renew(&spec, 2));
    assert_eq!(w.renewed(), Some(vec![2]));
    let mut other = desk.worker("other", "script", 1);
    desk.says(&other, renew(&spec, 3));
    assert_eq!(other.renewed(), None, "another worker's");
    desk.ends(&w, spec.ticket, 0);
    desk.says(&w, renew(&spec, 4));
    assert_eq!(w.renewed(), None, "over");
}
