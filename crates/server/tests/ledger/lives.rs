//! Whole lives of jobs, from submit to forget.

use protocol::link::{LogHeader, MissingCause, ServerMessage, WorkerMessage};
use server::ledger::{IdempotencyKey, SubmitError};
use uuid::Uuid;

use crate::desk::{Desk, ONE, blake3, submit};

#[test]
fn submit_offer_accept_go_end_log_forget() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    desk.check(job, "pending: queued");
    let spec = w.offer();
    assert_eq!((spec.task.as_str(), spec.step.as_str(), spec.number), ("one", "a", 1));
    // Nothing has started before the question is answered.
    assert!(desk.attempts(job).is_empty());

    desk.says(&w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
    desk.check(job, "running: running");
    assert_eq!(w.go(), spec.ticket);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
    // The result is on record, the log is not: the worker keeps it.
    w.none();
    let header = LogHeader {
        ticket: spec.ticket,
        first_seq: 1,
        last_seq: 0,
        missing: 0,
        cause: MissingCause::Limit,
        complete: true,
    };
    desk.log(&w, header, Vec::new());
    let messages = w.take();
    assert!(
        matches!(messages[..], [ServerMessage::LogAck { seq: 0, .. }, ServerMessage::Forget { .. }]),
        "{messages:?}"
    );
    assert!(desk.log_state(spec.ticket).complete);
    let attempts = desk.attempts(job);
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].state.as_str(), attempts[0].exit_code, attempts[0].confirmed), ("ended", Some(0), true));
}

#[test]
fn what_a_step_releases_is_offered_in_the_same_round() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit("name: two\nsteps:\n  a: { run: 'true' }\n  b: { run: 'true', needs: [a] }\n");
    let a = desk.start(&mut w);
    desk.ends(&w, a.ticket, 0);
    assert_eq!(w.offer().step, "b");
    desk.check(job, "running: success queued");
}

#[test]
fn a_failure_skips_what_needs_it_and_fails_the_job() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit("name: two\nsteps:\n  a: { run: 'true' }\n  b: { run: 'true', needs: [a] }\n");
    let a = desk.start(&mut w);
    desk.ends(&w, a.ticket, 3);
    desk.check(job, "failed: failed skipped");
    let words: Vec<String> = desk.events(job).into_iter().filter_map(|e| e.to).collect();
    assert_eq!(words, ["queued", "running", "running", "failed", "skipped", "failed"]);
}

#[test]
fn the_question_is_idempotent() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.says(&w, vec![WorkerMessage::Accept { ticket: spec.ticket }]);
    assert_eq!(w.go(), spec.ticket);
    assert_eq!(desk.attempts(job).len(), 1);
}

#[test]
fn an_end_that_is_repeated_changes_nothing() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    desk.ends(&w, spec.ticket, 0);
    let events = desk.events(job).len();
    desk.ends(&w, spec.ticket, 1);
    desk.check(job, "success: success");
    assert_eq!(desk.events(job).len(), events);
    assert!(matches!(w.take()[..], [ServerMessage::StaleDispatch { .. }]));
}

#[test]
fn a_submit_with_a_key_is_safe_to_repeat() {
    let mut desk = Desk::new();
    let key = |request: &str| {
        let (token, key, request_hash) = (Uuid::from_u128(9), "k".to_owned(), blake3(request));
        Some(IdempotencyKey { token, key, request_hash })
    };
    // Twice in one round, then once more.
    let (one, mut first) = submit(ONE, key("r"));
    let (two, mut second) = submit(ONE, key("r"));
    desk.round(vec![one, two]);
    let first = first.try_recv().expect("answered").expect("made");
    let second = second.try_recv().expect("answered").expect("found");
    assert_eq!((first.job, first.repeated, second.repeated), (second.job, false, true));
    let third = desk.try_submit(ONE, key("r")).expect("found");
    assert_eq!((third.job, third.repeated), (first.job, true));
    assert_eq!(desk.try_submit(ONE, key("other")).err(), Some(SubmitError::KeyReused));
}

#[test]
fn retries_wait_and_run_again_with_a_new_fence() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit("name: r\nsteps:\n  a: { run: 'false', retry: { attempts: 2, delay: 5s } }\n");
    let first = desk.start(&mut w);
    desk.ends(&w, first.ticket, 1);
    desk.check(job, "running: waiting");
    w.none();
    desk.pass(std::time::Duration::from_secs(5));
    let second = desk.start(&mut w);
    assert!(second.ticket.fence > first.ticket.fence);
    assert_eq!(second.number, 2);
    desk.ends(&w, second.ticket, 1);
    desk.check(job, "failed: failed");
    assert_eq!(desk.attempts(job).len(), 2);
}
