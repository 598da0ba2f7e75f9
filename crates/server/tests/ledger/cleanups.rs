//! Steps that are cleaned up after: what the worker is told, how long it is waited for, and what is kept of the end.

use std::time::Duration;

use engine::Event;
use engine::attempt::CleanupState;
use protocol::attempt::{CleanupCut, CleanupEnd, CleanupPlan, End, EndResult, Program, StopMode, StopReason};
use protocol::link::{ServerMessage, VerdictKind, WorkerMessage};

use crate::cluster::running;
use crate::desk::{Desk, exited};

const SECOND: Duration = Duration::from_secs(1);

/// An order to stop has 5 s, 40 s for the cleanup, and a margin of 10.
const TASK: &str = "name: t\nsteps:\n  a:\n    run: [x]\n    cleanup: [undo, \"{{ task.name }}\"]\n    cancel: { grace: 5s, cleanup: 40s }\n";

fn cancel() -> Event {
    Event::Cancel { by: "me".to_owned(), force: false }
}

fn cleaned_up() -> End {
    let result = EndResult::Signaled { signal: 9, oom: false };
    let cleanup = CleanupEnd { result, cut: Some(CleanupCut::Budget), duration_ms: 40_000 };
    End { stopped: Some(StopReason::Cancelled), cleanup: Some(cleanup), ..exited(7) }
}

#[test]
fn the_worker_is_told_of_it_and_its_end_is_kept_beside_the_steps() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(TASK);
    let spec = desk.start(&mut w);
    let program = Program::Command { argv: vec!["undo".to_owned(), "t".to_owned()] };
    assert_eq!(spec.cleanup, Some(CleanupPlan { program, budget_ms: 40_000 }));
    desk.event(job, cancel()).expect("ordered");
    assert!(matches!(w.one(), ServerMessage::Stop { mode: StopMode::Graceful, grace_ms: 5_000, .. }));
    desk.pass(SECOND * 50);
    desk.check(job, "cancelling: cancelling");
    desk.says(&w, vec![WorkerMessage::Ended { ticket: spec.ticket, end: cleaned_up() }]);
    desk.check(job, "cancelled: cancelled");
    let attempt = &desk.attempts(job)[0];
    assert_eq!((attempt.exit_code, attempt.confirmed), (Some(7), true), "the step's own end");
    let cleanup = store::codec::cleanup(attempt.cleanup.as_deref().expect("it had its turn")).expect("readable");
    assert_eq!((cleanup.state(), cleanup.duration_ms), (CleanupState::TimedOut, 40_000));
}

#[test]
fn it_is_waited_for_and_not_for_ever() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(TASK);
    let spec = desk.start(&mut w);
    desk.event(job, cancel()).expect("ordered");
    desk.pass(SECOND * 54);
    desk.check(job, "cancelling: cancelling");
    desk.pass(SECOND * 2);
    desk.check(job, "cancelled: cancelled");
    assert!(!desk.attempts(job)[0].confirmed);
    w.take();
    desk.says(&w, vec![WorkerMessage::Ended { ticket: spec.ticket, end: cleaned_up() }]);
    assert!(matches!(w.take()[0], ServerMessage::StaleDispatch { .. }), "its late report");
    let attempt = &desk.attempts(job)[0];
    assert!(attempt.late_outcome.as_ref().is_some_and(|late| late.contains("\"cleanup\"")), "{attempt:?}");
}

#[test]
fn an_order_outlives_its_server_and_a_cut() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(TASK);
    let spec = desk.start(&mut w);
    desk.event(job, cancel()).expect("ordered");
    let worker = w.worker;
    desk.restart();
    let back = desk.connect(worker, "w", "script", 1, vec![running(&spec)]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::StopGraceful, "it is told again");
    desk.check(job, "cancelling: cancelling");
    desk.says(&back, vec![WorkerMessage::Ended { ticket: spec.ticket, end: cleaned_up() }]);
    desk.check(job, "cancelled: cancelled");
}
