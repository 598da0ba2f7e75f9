//! Time in which nobody could be heard: it counts against nobody.

use std::time::Duration;

use protocol::link::{HeldState, RefusedCode, Renewal, ServerMessage, VerdictKind, WorkerMessage};

use crate::desk::{Desk, ONE};
use crate::recovery::held;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn an_outage_longer_than_the_window_costs_a_cut_off_step_nothing() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.hang_up(&w);
    desk.pass(SECOND * 110);
    desk.down(HOUR);
    desk.check(job, "recovering: recovering");
    // Its own window has ten seconds left, but nobody is judged before the longest back-off had time to end.
    desk.pass(SECOND * 60);
    desk.check(job, "recovering: recovering");
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Running)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::Continue);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
}

#[test]
fn who_does_not_come_back_is_judged_after_the_stretch() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.hang_up(&w);
    desk.pass(SECOND * 110);
    desk.down(HOUR);
    desk.pass(SECOND * 89);
    desk.check(job, "recovering: recovering");
    desk.pass(SECOND);
    desk.check(job, "failed: failed");
}

#[test]
fn a_server_that_slept_judges_nobody_for_it() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.hang_up(&w);
    desk.pass(SECOND * 60);
    desk.freeze(HOUR);
    desk.pass(SECOND * 85);
    desk.check(job, "recovering: recovering");
    desk.pass(SECOND * 10);
    desk.check(job, "failed: failed");
}

#[test]
fn the_deadline_that_operators_see_moves_with_deaf_time() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.hang_up(&w);
    let deadline = |desk: &Desk| {
        let stored = desk.stored(job);
        let clocks = desk.reader.hearing().expect("readable").expect("a mark").clocks(desk.now);
        let definition = server::ledger::Definitions::default();
        let (job, _) = definition.load(&stored).expect("a job");
        job.steps[0].check_at(&clocks).expect("it is open").at
    };
    let before = deadline(&desk);
    assert_eq!(before, desk.now + SECOND * 120);
    desk.pass(SECOND * 100);
    desk.freeze(HOUR);
    let moved = deadline(&desk).since(before);
    // All but the interval of the marks around it; and the stretch of hearing, which ends later than the window.
    assert!(moved > HOUR && moved < HOUR + SECOND * 75, "{moved:?}");
}

#[test]
fn a_queued_step_waits_for_its_worker_after_a_restart() {
    let mut desk = Desk::new();
    let w = desk.worker("w", "script linux", 1);
    desk.hang_up(&w);
    desk.pass(SECOND * 10);
    let job = desk.submit("name: q\nsteps:\n  a: { run: 'true', tags: [linux] }\n");
    desk.down(SECOND * 5);
    // Its worker is in its window; a step that nobody ever could run waits for the stretch only.
    let other = desk.submit("name: q\nsteps:\n  a: { run: 'true', tags: [gpu] }\n");
    desk.pass(SECOND * 95);
    desk.check(other, "failed: failed");
    desk.check(job, "pending: queued");
    let mut w = desk.connect(w.worker, "w", "script linux", 1, Vec::new());
    w.offer();
}

#[test]
fn a_worker_that_is_gone_for_good_leaves_a_step_unmatched() {
    let mut desk = Desk::new();
    let w = desk.worker("w", "script linux", 1);
    desk.hang_up(&w);
    let job = desk.submit("name: q\nsteps:\n  a: { run: 'true', tags: [linux] }\n");
    desk.pass(SECOND * 119);
    desk.check(job, "pending: queued");
    desk.pass(SECOND * 31);
    desk.check(job, "failed: failed");
}

#[test]
fn a_worker_without_heartbeats_is_cut_off_though_its_socket_lives() {
    let mut desk = Desk::new();
    desk.configure(|config| config.heartbeat_timeout = SECOND * 120);
    desk.restart();
    let mut silent = desk.worker("silent", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut silent);
    for _ in 0..4 {
        desk.pass(SECOND * 30);
        desk.heartbeat(&silent);
    }
    desk.check(job, "running: running");
    desk.pass(SECOND * 121);
    desk.check(job, "recovering: recovering");
    let refused = silent.take();
    assert!(matches!(refused[..], [ServerMessage::Refused { code: RefusedCode::GoingAway, .. }]), "{refused:?}");
    // Active again at the next hello.
    let w = desk.connect(silent.worker, "silent", "script", 1, vec![held(&spec, HeldState::Running)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::Continue);
    desk.check(job, "running: running");
}

#[test]
fn leases_are_renewed_for_what_is_current_on_this_link() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let spec = desk.start(&mut w);
    let renewal = Renewal { ticket: spec.ticket, n: 3 };
    let stranger = Renewal { ticket: protocol::attempt::Ticket { fence: 1, ..spec.ticket }, n: 4 };
    desk.says(&w, vec![WorkerMessage::Renew { renewals: vec![renewal, stranger] }]);
    assert!(matches!(w.one(), ServerMessage::Renewed { renewals } if renewals == [renewal]));
    desk.ends(&w, spec.ticket, 0);
    w.take();
    desk.says(&w, vec![WorkerMessage::Renew { renewals: vec![renewal] }]);
    w.none();
}
