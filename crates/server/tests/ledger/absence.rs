//! Workers that will not come back, and losses that may be the server's own fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::WorkerId;
use protocol::link::{HeldState, Hello, VerdictKind};
use server::scaler::Scaler;

use crate::desk::{Desk, Mailbox, ONE, hello};
use crate::recovery::held;

const SECOND: Duration = Duration::from_secs(1);
const REPEATABLE: &str = "name: r\nsteps:\n  a: { run: 'true', effects: idempotent }\n";

fn special(desk: &mut Desk, change: impl FnOnce(&mut Hello)) -> Mailbox {
    let id = desk.enrol("special");
    let mut hello = hello("special", "script", 2, Vec::new());
    change(&mut hello);
    desk.knock(id, hello).welcomed()
}

#[test]
fn who_will_not_reconnect_is_not_waited_for() {
    let mut desk = Desk::new();
    let mut w = special(&mut desk, |hello| hello.no_reconnect = true);
    let writes = desk.submit(ONE);
    desk.start(&mut w);
    let repeatable = desk.submit(REPEATABLE);
    desk.start(&mut w);
    desk.hang_up(&w);
    desk.check(writes, "failed: failed");
    let error = desk.attempts(writes)[0].error_message.clone().unwrap_or_default();
    assert!(error.starts_with("Job failed: agent disconnected, and had said that it will not reconnect"), "{error}");
    assert!(!desk.attempts(writes)[0].confirmed);
    desk.check(repeatable, "running: queued");
    let mut other = desk.worker("other", "script", 1);
    desk.start(&mut other);
}

#[test]
fn a_restart_of_the_server_gives_everybody_the_window() {
    let mut desk = Desk::new();
    let mut w = special(&mut desk, |hello| hello.no_reconnect = true);
    let job = desk.submit(ONE);
    desk.start(&mut w);
    desk.restart();
    desk.check(job, "recovering: recovering");
}

#[test]
fn a_step_with_a_lease_is_handed_over_after_it_and_not_before() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let task =
        "name: l\nsteps:\n  a: { run: 'true', on_disconnect: stop, retry: { attempts: 2, on: [worker_lost] } }\n";
    let job = desk.submit(task);
    let spec = desk.start(&mut w);
    assert_eq!(spec.lease_ms, Some(96_000), "well within the window");
    let mut other = desk.worker("other", "script", 1);
    desk.hang_up(&w);
    desk.pass(SECOND * 119);
    desk.check(job, "recovering: recovering");
    other.none();
    desk.pass(SECOND * 2);
    desk.start(&mut other);
    let first = &desk.attempts(job)[0];
    assert_eq!((first.state.as_str(), first.confirmed), ("lost", true), "its lease is over, and it with it");
    // Whoever brings it back is told to end it.
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Running)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::StopKill);
}

/// Says that every machine is gone, once it is told so.
struct Double(Arc<AtomicBool>);

impl Scaler for Double {
    fn is_gone(&self, _worker: WorkerId) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn an_ephemeral_worker_is_decided_when_its_scaler_confirms() {
    let mut desk = Desk::new();
    let gone = Arc::new(AtomicBool::new(false));
    let core = desk.core.take().expect("the server runs").with_scaler(Double(gone.clone()));
    desk.core = Some(core);
    let mut w = special(&mut desk, |hello| hello.ephemeral = true);
    let job = desk.submit(REPEATABLE);
    desk.start(&mut w);
    let offered = desk.submit(ONE);
    w.offer();
    desk.hang_up(&w);
    // What never started is free at once.
    desk.check(offered, "pending: queued");
    desk.pass(SECOND * 20);
    desk.check(job, "recovering: recovering");
    gone.store(true, Ordering::Relaxed);
    desk.pass(SECOND * 3);
    desk.check(job, "running: queued");
    let error = desk.attempts(job)[0].error_message.clone().unwrap_or_default();
    assert!(error.starts_with("Job failed: scaler-managed agent disconnected mid-execution"), "{error}");
    assert!(!desk.attempts(job)[0].confirmed, "no scaler is proof");
}

#[test]
fn most_workers_lost_at_once_get_a_second_window() {
    let mut desk = Desk::new();
    let mut running = Vec::new();
    for n in 0..6 {
        let mut w = desk.worker(&format!("w{n}"), "script", 1);
        let job = desk.submit(ONE);
        let spec = desk.start(&mut w);
        running.push((w, job, spec));
    }
    for (w, _, _) in &running[..5] {
        desk.pass(SECOND);
        desk.hang_up(w);
    }
    let tripped = desk.reader.breaker().expect("readable").expect("a row");
    assert_eq!((tripped.lost, tripped.connected, tripped.ended_at), (5, 6, None));
    desk.pass(SECOND * 130);
    for (_, job, _) in &running[..5] {
        desk.check(*job, "recovering: recovering");
    }
    // Most come back, and it is over; the last one's time is up after its second window.
    for (n, (w, job, spec)) in running[..4].iter().enumerate() {
        let brought = vec![held(spec, HeldState::Running)];
        let w = desk.connect(w.worker, &format!("w{n}"), "script", 1, brought);
        assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::Continue);
        desk.check(*job, "running: running");
    }
    assert!(desk.reader.breaker().expect("readable").expect("a row").ended_at.is_some());
    desk.pass(SECOND * 111);
    desk.check(running[4].1, "failed: failed");
    let moved = desk.events(running[4].1).into_iter().filter(|e| e.verb.as_deref() == Some("more_time")).count();
    assert_eq!(moved, 1);
}

#[test]
fn a_few_lost_workers_are_no_reason_to_wait_longer() {
    let mut desk = Desk::new();
    let mut running: Vec<Mailbox> = (0..6).map(|n| desk.worker(&format!("w{n}"), "script", 1)).collect();
    let job = desk.submit(ONE);
    let busy = running.iter_mut().position(|w| !w.take().is_empty()).expect("one has the offer");
    desk.hang_up(&running[busy]);
    desk.check(job, "pending: queued");
    assert_eq!(desk.reader.breaker().expect("readable"), None);
}
