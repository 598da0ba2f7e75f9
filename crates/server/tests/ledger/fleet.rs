//! What operators do to the fleet, and what becomes of the work that is there.

use std::time::Duration;

use protocol::attempt::{AttemptSpec, End, StopReason};
use protocol::link::{
    Heartbeat, HeldAttempt, HeldState, LogHeader, MissingCause, RefusedCode, ServerMessage, VerdictKind, WorkerMessage,
};
use server::ledger::{FleetAnswer, FleetError, FleetOrder};

use crate::desk::{Desk, Mailbox, ONE, exited};

const IDEMPOTENT: &str = "name: one\nsteps:\n  a: { run: 'true', effects: idempotent }\n";

fn drain(worker: &Mailbox, on: bool) -> FleetOrder {
    FleetOrder::Drain { worker: worker.worker, on }
}

fn remove(worker: &Mailbox) -> FleetOrder {
    FleetOrder::Remove { worker: worker.worker, by: "ann".to_owned() }
}

fn pause() -> FleetOrder {
    FleetOrder::Pause { by: "ann".to_owned() }
}

fn held(spec: &AttemptSpec) -> HeldAttempt {
    HeldAttempt {
        ticket: spec.ticket,
        job: spec.job,
        step: spec.step.clone(),
        state: HeldState::Running,
        log_first_seq: 0,
        log_last_seq: 0,
        events: 0,
        unsure: false,
    }
}

fn is_removed(message: &ServerMessage) -> bool {
    matches!(message, ServerMessage::Refused { code: RefusedCode::Removed, .. })
}

fn beat(draining: bool) -> WorkerMessage {
    let held = Vec::new();
    WorkerMessage::Heartbeat(Heartbeat { processed: 0, held, free: 1, ahead: 0, draining, runners: Vec::new() })
}

#[test]
fn a_drained_worker_gets_nothing_new_whatever_it_says_of_itself() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 2);
    let first = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.order(drain(&w, true)).expect("drained");
    let second = desk.submit(ONE);
    desk.says(&w, vec![beat(false)]);
    w.none();
    desk.ends(&w, spec.ticket, 0);
    desk.check(first, "success: success");
    w.take();
    // A new link and a new server know it too.
    desk.hang_up(&w);
    desk.restart();
    let mut w = desk.connect(w.worker, "w", "script", 2, Vec::new());
    w.none();
    desk.check(second, "pending: queued");
    // The worker's own word is not the operator's: taking one back leaves the other.
    desk.says(&w, vec![beat(true)]);
    desk.order(drain(&w, false)).expect("no longer drained");
    w.none();
    desk.says(&w, vec![beat(false)]);
    w.offer();
}

#[test]
fn a_step_is_not_unmatched_the_moment_its_last_worker_is_drained() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    desk.start(&mut w);
    let waits = desk.submit(ONE);
    desk.pass(Duration::from_secs(29));
    desk.order(drain(&w, true)).expect("drained");
    desk.pass(Duration::from_secs(2));
    desk.check(waits, "pending: queued");
    desk.pass(Duration::from_secs(60));
    desk.check(waits, "failed: failed");
}

#[test]
fn an_unmatched_step_names_the_workers_that_take_no_new_work() {
    let mut desk = Desk::new();
    let workers = [desk.worker("w1", "script", 1), desk.worker("w2", "script", 1), desk.worker("w3", "script", 1)];
    let _other = desk.worker("other", "linux", 1);
    for w in &workers[..2] {
        desk.order(drain(w, true)).expect("drained");
    }
    desk.order(remove(&workers[2])).expect("removed");
    let job = desk.submit(ONE);
    desk.pass(Duration::from_secs(60));
    desk.check(job, "failed: failed");
    let last = desk.events(job).into_iter().rev().find(|e| e.kind == "step").expect("an event");
    assert!(
        last.reason.contains("the workers that have them take no new work: w1, w2 (draining), w3 (removed)"),
        "{}",
        last.reason
    );
}

#[test]
fn removing_a_worker_requeues_its_offers() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let offered = w.offer();
    assert_eq!(desk.order(remove(&w)), Ok(FleetAnswer { offers: 1, attempts: 0 }));
    assert!(is_removed(&w.one()));
    desk.check(job, "pending: queued");
    // Too late: nobody waits for its answer.
    desk.says(&w, vec![WorkerMessage::Accept { ticket: offered.ticket }]);
    desk.check(job, "pending: queued");
    let mut other = desk.worker("other", "script", 1);
    let spec = desk.start(&mut other);
    desk.ends(&other, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn what_may_not_be_repeated_fails_at_once_and_stays_unconfirmed_until_proof_comes() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    assert_eq!(desk.order(remove(&w)), Ok(FleetAnswer { offers: 0, attempts: 1 }));
    desk.check(job, "failed: failed");
    let attempt = &desk.attempts(job)[0];
    assert_eq!((attempt.error_code.as_deref(), attempt.confirmed), (Some("worker_removed"), false));
    let message = attempt.error_message.clone().expect("a message");
    assert!(message.starts_with("Job failed: the worker no longer exists"), "{message}");
    assert!(message.contains("worker w on here"), "{message}");
    assert!(desk.events(job).iter().any(|e| e.kind == "attempt" && e.verb.as_deref() == Some("unconfirmed")));
    assert!(is_removed(&w.one()) && !w.closed, "it may still report what became of it");
    desk.says(&w, vec![WorkerMessage::Ended { ticket: spec.ticket, end: exited(0) }]);
    let attempt = &desk.attempts(job)[0];
    assert!(attempt.confirmed && attempt.late_outcome.is_some(), "its end is proof, and evidence: {attempt:?}");
    assert_eq!(desk.order(remove(&w)), Err(FleetError::NoSuchWorker), "once is enough");
}

#[test]
fn a_removed_workers_report_frees_what_may_be_repeated() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(IDEMPOTENT);
    let spec = desk.start(&mut w);
    desk.order(remove(&w)).expect("removed");
    desk.check(job, "recovering: recovering");
    let stopped = End { stopped: Some(StopReason::WorkerStopped), ..exited(143) };
    desk.says(&w, vec![WorkerMessage::Ended { ticket: spec.ticket, end: stopped }]);
    desk.check(job, "running: queued");
    assert_eq!(desk.attempts(job)[0].error_code.as_deref(), Some("worker_removed"));
}

#[test]
fn a_removed_worker_that_comes_back_is_told_to_stop_all_and_why() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(IDEMPOTENT);
    let spec = desk.start(&mut w);
    desk.hang_up(&w);
    desk.order(remove(&w)).expect("removed");
    desk.restart();
    let mut back = desk.connect(w.worker, "w", "script", 1, vec![held(&spec)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::StopGraceful);
    assert!(is_removed(&back.one()));
    desk.check(job, "recovering: recovering");
    let (ticket, cause) = (spec.ticket, MissingCause::Limit);
    desk.log(&back, LogHeader { ticket, first_seq: 1, last_seq: 0, missing: 0, cause, complete: true }, Vec::new());
    let stopped = End { stopped: Some(StopReason::Cancelled), ..exited(143) };
    desk.says(&back, vec![WorkerMessage::Ended { ticket: spec.ticket, end: stopped }]);
    desk.check(job, "running: queued");
    let forget = |message: &ServerMessage| matches!(message, ServerMessage::Forget { .. });
    assert!(back.take().iter().any(forget), "its end is on record, so that nothing need stay in its folder");
    let mut again = desk.connect(w.worker, "w", "script", 1, Vec::new());
    assert!(is_removed(&again.one()) && again.closed, "it has nothing to report");
    assert_eq!(desk.core().roster().connected(), 0);
}

#[test]
fn the_window_decides_on_a_removed_worker_that_never_comes_back() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit("name: one\nsteps:\n  a: { run: 'true', effects: none }\n");
    desk.start(&mut w);
    desk.order(remove(&w)).expect("removed");
    desk.pass(Duration::from_secs(119));
    desk.check(job, "recovering: recovering");
    desk.pass(Duration::from_secs(1));
    desk.check(job, "running: queued");
    let attempt = &desk.attempts(job)[0];
    assert_eq!((attempt.error_code.as_deref(), attempt.confirmed), (Some("worker_removed"), false));
}

#[test]
fn a_pause_outlives_the_server_and_fails_nobody() {
    let mut desk = Desk::new();
    desk.order(pause()).expect("paused");
    let job = desk.submit(ONE);
    let mut w = desk.worker("w", "script", 1);
    w.none();
    desk.restart();
    let mut w = desk.connect(w.worker, "w", "script", 1, Vec::new());
    desk.pass(Duration::from_secs(3600));
    w.none();
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(3600));
    desk.check(job, "pending: queued");
    desk.order(FleetOrder::Resume).expect("resumed");
    desk.pass(Duration::from_secs(29));
    desk.check(job, "pending: queued");
    let mut w = desk.connect(w.worker, "w", "script", 1, Vec::new());
    w.offer();
}

#[test]
fn a_worker_that_never_came_can_be_drained_and_removed() {
    let mut desk = Desk::new();
    let id = desk.enrol("new");
    desk.order(FleetOrder::Drain { worker: id, on: true }).expect("drained");
    desk.order(FleetOrder::Remove { worker: id, by: "ann".to_owned() }).expect("removed");
    let mut w = desk.connect(id, "new", "script", 1, Vec::new());
    assert!(is_removed(&w.one()));
    let stranger = engine::WorkerId(uuid::Uuid::from_u128(99));
    assert_eq!(desk.order(FleetOrder::Drain { worker: stranger, on: true }), Err(FleetError::NoSuchWorker));
}
