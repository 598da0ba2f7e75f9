//! Offers: one worker each, answered or taken back.

use std::time::Duration;

use engine::Event;
use protocol::link::{RefuseReason, ServerMessage, WorkerMessage};

use crate::desk::{Desk, ONE};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn one_step_is_offered_to_one_of_four_idle_workers() {
    let mut desk = Desk::new();
    let mut workers: Vec<_> = (0..4).map(|n| desk.worker(&format!("w{n}"), "script", 2)).collect();
    desk.submit(ONE);
    let offers: usize = workers.iter_mut().map(|w| w.take().len()).sum();
    assert_eq!(offers, 1);
}

#[test]
fn a_late_offer_timer_does_not_touch_a_running_step() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.pass(SECOND * 60);
    desk.check(job, "running: running");
    w.none();
}

#[test]
fn refusals_cost_the_step_nothing() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    for _ in 0..20 {
        let ticket = w.offer().ticket;
        let (reason, detail) = (RefuseReason::Busy, String::new());
        desk.says(&w, vec![WorkerMessage::Refuse { ticket, reason, detail }]);
        // It is not asked again before it says how it is.
        w.none();
        desk.heartbeat(&w);
    }
    desk.check(job, "pending: queued");
    let spec = desk.start(&mut w);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn unanswered_offers_are_taken_back_and_in_the_end_fail() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let first = w.offer().ticket;
    for pause in [0, 1, 2, 4] {
        desk.pass(SECOND * 10);
        let mut messages = w.take();
        assert!(matches!(messages[0], ServerMessage::Withdraw { .. }), "{messages:?}");
        if pause > 0 {
            assert_eq!(messages.len(), 1, "it is not offered again before its time: {messages:?}");
            desk.pass(SECOND * pause);
            messages = w.take();
        }
        assert!(matches!(messages.last(), Some(ServerMessage::Offer { .. })), "{messages:?}");
        desk.check(job, "pending: queued");
    }
    desk.pass(SECOND * 10);
    assert!(matches!(w.one(), ServerMessage::Withdraw { .. }));
    desk.check(job, "failed: failed");
    // Whoever accepts now is told that it is too late.
    desk.says(&w, vec![WorkerMessage::Accept { ticket: first }]);
    assert!(matches!(w.one(), ServerMessage::StaleDispatch { .. }));
}

#[test]
fn an_accept_after_the_offer_went_elsewhere_is_stale() {
    let mut desk = Desk::new();
    let mut slow = desk.worker("slow", "script", 1);
    let job = desk.submit(ONE);
    let first = slow.offer();
    let mut quick = desk.worker("quick", "script", 1);
    desk.pass(SECOND * 10);
    assert!(matches!(slow.one(), ServerMessage::Withdraw { .. }));
    let second = quick.offer();
    desk.says(&slow, vec![WorkerMessage::Accept { ticket: first.ticket }]);
    assert!(matches!(slow.one(), ServerMessage::StaleDispatch { .. }));
    desk.says(&quick, vec![WorkerMessage::Accept { ticket: second.ticket }]);
    assert_eq!(quick.go(), second.ticket);
    desk.check(job, "running: running");
}

#[test]
fn a_step_that_nobody_can_run_fails_after_its_patience() {
    let mut desk = Desk::new();
    let _w = desk.worker("w", "script linux", 1);
    let job = desk.submit("name: g\nsteps:\n  a: { run: 'true', tags: [gpu] }\n");
    desk.pass(SECOND * 29);
    desk.check(job, "pending: queued");
    desk.pass(SECOND * 2);
    desk.check(job, "failed: failed");
    let last = desk.events(job).into_iter().rev().find(|e| e.kind == "step").expect("an event");
    assert!(last.reason.starts_with("No active worker with required tags to run this step"), "{}", last.reason);
    assert!(last.reason.contains("gpu"), "{}", last.reason);
}

#[test]
fn a_busy_worker_that_matches_is_waited_for() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    desk.start(&mut w);
    let waiting = desk.submit(ONE);
    desk.pass(SECOND * 120);
    desk.check(waiting, "pending: queued");
}

#[test]
fn cancel_takes_an_offer_back_and_stops_what_runs() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let offered = desk.submit(ONE);
    let ticket = w.offer().ticket;
    let cancel = |force| Event::Cancel { by: "me".to_owned(), force };
    desk.event(offered, cancel(false)).expect("cancelled");
    desk.check(offered, "cancelled: cancelled");
    assert!(matches!(w.one(), ServerMessage::Withdraw { ticket: t } if t == ticket));

    let running = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.event(running, cancel(false)).expect("ordered");
    desk.check(running, "cancelling: cancelling");
    assert!(matches!(w.one(), ServerMessage::Stop { .. }));
    desk.ends(&w, spec.ticket, 0);
    desk.check(running, "cancelled: cancelled");
    assert!(desk.event(running, cancel(false)).is_err());
}

#[test]
fn a_cancel_that_is_never_answered_ends_at_its_deadline() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.event(job, Event::Cancel { by: "me".to_owned(), force: false }).expect("ordered");
    desk.pass(SECOND * 60);
    desk.check(job, "cancelled: cancelled");
    assert!(!desk.attempts(job)[0].confirmed);
}
