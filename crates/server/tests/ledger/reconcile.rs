//! What workers bring, what they do not have, and what the server makes of either.

use std::time::Duration;

use engine::Event;
use protocol::attempt::{AttemptSpec, Ticket};
use protocol::link::{Heartbeat, HeldState, Hello, Loss, RefuseReason, ServerMessage, VerdictKind, WorkerMessage};

use crate::desk::{Desk, Mailbox, ONE, hello};
use crate::recovery::held;

const SECOND: Duration = Duration::from_secs(1);

fn beat(processed: u64, held: Vec<Ticket>) -> WorkerMessage {
    let (free, ahead, draining, runners) = (1, 0, false, Vec::new());
    WorkerMessage::Heartbeat(Heartbeat { processed, held, free, ahead, draining, runners })
}

fn started(desk: &mut Desk) -> (Mailbox, engine::JobId, AttemptSpec) {
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    (w, job, spec)
}

#[test]
fn a_heartbeat_without_what_was_processed_is_evidence_after_the_grace() {
    let mut desk = Desk::new();
    let (w, job, _) = started(&mut desk);
    // Offer and go were the first two; before they are processed nothing is expected.
    desk.pass(SECOND * 60);
    desk.says(&w, vec![beat(1, Vec::new())]);
    desk.check(job, "running: running");
    desk.says(&w, vec![beat(2, Vec::new())]);
    desk.check(job, "failed: failed");
    assert!(desk.attempts(job)[0].confirmed);
}

#[test]
fn the_grace_is_waited_on_top() {
    let mut desk = Desk::new();
    let (w, job, spec) = started(&mut desk);
    desk.pass(SECOND * 9);
    desk.says(&w, vec![beat(2, Vec::new())]);
    desk.check(job, "running: running");
    desk.pass(SECOND * 20);
    desk.says(&w, vec![beat(2, vec![spec.ticket])]);
    desk.check(job, "running: running");
}

/// A link may stand for months: what came to nothing on it must not be kept for as long.
#[test]
fn refused_offers_leave_nothing_behind() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    for processed in 1..=10 {
        let ticket = w.offer().ticket;
        let (reason, detail) = (RefuseReason::DiskFull, String::new());
        desk.says(&w, vec![WorkerMessage::Refuse { ticket, reason, detail }]);
        desk.says(&w, vec![beat(processed, Vec::new())]);
    }
    assert_eq!(desk.core().census().expected, 1, "only the offer that stands");
}

/// Nor what an attempt's log was known to hold, once nobody has the attempt any more.
#[test]
fn an_attempt_that_its_worker_lost_leaves_nothing_behind() {
    let mut desk = Desk::new();
    let (w, job, _) = started(&mut desk);
    desk.pass(SECOND * 60);
    desk.says(&w, vec![beat(2, Vec::new())]);
    desk.check(job, "failed: failed");
    desk.says(&w, vec![beat(2, Vec::new())]);
    let census = desk.core().census();
    assert_eq!((census.expected, census.log_positions, census.ended), (0, 0, 0));
}

#[test]
fn a_worker_that_could_not_read_all_it_has_proves_nothing() {
    let mut desk = Desk::new();
    let (w, job, _) = started(&mut desk);
    // Its old link was not even seen to end.
    let last_epoch = w.welcome.epoch;
    let partial = Hello { last_epoch, scan_complete: false, ..hello("w", "script", 1, Vec::new()) };
    let w = desk.knock(w.worker, partial).welcomed();
    desk.check(job, "recovering: recovering");
    desk.pass(SECOND * 60);
    desk.says(&w, vec![beat(0, Vec::new())]);
    desk.check(job, "recovering: recovering");
    desk.pass(SECOND * 60);
    desk.check(job, "failed: failed");
    assert!(!desk.attempts(job)[0].confirmed);
}

#[test]
fn an_offer_of_an_old_link_is_lost_and_not_unanswered() {
    let mut desk = Desk::new();
    let mut old = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let offered = old.offer();
    // The new hello comes before the old socket's end.
    let mut new = desk.connect(old.worker, "w", "script", 1, vec![held(&offered, HeldState::Waiting)]);
    assert_eq!(new.welcome.verdicts[0].verdict, VerdictKind::Forget);
    let again = new.offer();
    assert_ne!(again.ticket, offered.ticket);
    desk.hang_up(&old);
    let news: Vec<_> = desk.events(job).into_iter().filter(|e| e.kind == "offer").filter_map(|e| e.verb).collect();
    assert_eq!(news, ["made", "lost", "made"]);
}

#[test]
fn a_cancelled_step_is_never_told_to_go() {
    let mut desk = Desk::new();
    let (mut w, job, spec) = started(&mut desk);
    desk.event(job, Event::Cancel { by: "me".to_owned(), force: false }).expect("ordered");
    assert!(matches!(w.one(), ServerMessage::Stop { .. }));
    desk.hang_up(&w);
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Waiting)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::StopGraceful);
    let (ticket, detail) = (spec.ticket, String::new());
    desk.says(&w, vec![WorkerMessage::Lost { ticket, loss: Loss::Void, detail }]);
    desk.check(job, "cancelled: cancelled");
}

fn void(spec: &AttemptSpec) -> WorkerMessage {
    WorkerMessage::Lost { ticket: spec.ticket, loss: Loss::Void, detail: String::new() }
}

fn began(spec: &AttemptSpec) -> WorkerMessage {
    WorkerMessage::Started { ticket: spec.ticket, pid: 7 }
}

/// A machine's disk was put back to where the attempt had not begun: its worker says so in good faith.
#[test]
fn a_start_that_was_heard_cannot_be_unsaid() {
    let mut desk = Desk::new();
    let (mut w, job, spec) = started(&mut desk);
    desk.says(&w, vec![began(&spec)]);
    desk.says(&w, vec![void(&spec)]);
    desk.check(job, "failed: failed");
    let lost = &desk.attempts(job)[0];
    assert_eq!((lost.error_code.as_deref(), lost.confirmed), (Some("runner_lost"), true));
    assert!(lost.error_message.as_ref().is_some_and(|why| why.contains("does not remember")), "{lost:?}");
    assert!(matches!(w.one(), ServerMessage::Forget { .. }), "it has nothing of it that anybody waits for");
}

#[test]
fn a_start_that_was_heard_outlives_the_server_that_heard_it() {
    let mut desk = Desk::new();
    let (w, job, spec) = started(&mut desk);
    desk.says(&w, vec![began(&spec)]);
    desk.pass(SECOND);
    desk.restart();
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Waiting)]);
    desk.says(&w, vec![void(&spec)]);
    desk.check(job, "failed: failed");
}

/// Most steps are over before that.
#[test]
fn what_is_over_at_once_costs_no_row_for_its_start() {
    let mut desk = Desk::new();
    let (w, job, spec) = started(&mut desk);
    desk.says(&w, vec![began(&spec)]);
    desk.ends(&w, spec.ticket, 0);
    desk.pass(SECOND * 2);
    desk.check(job, "success: success");
    let row = desk.reader.attempt(engine::AttemptId(spec.ticket.attempt)).expect("readable").expect("on record");
    assert!(!row.begun);
}

#[test]
fn an_unknown_attempt_is_left_alone_and_takes_its_slot() {
    let mut desk = Desk::new();
    let (w, _, spec) = started(&mut desk);
    desk.hang_up(&w);
    let mut stranger = held(&spec, HeldState::Running);
    stranger.ticket.attempt = uuid::Uuid::from_u128(0xabc);
    let other = desk.enrol("other");
    let mut other = desk.connect(other, "other", "script", 1, vec![stranger.clone()]);
    assert_eq!(other.welcome.verdicts[0].verdict, VerdictKind::Finish);
    desk.submit(ONE);
    other.none();
    desk.says(&other, vec![beat(0, vec![stranger.ticket])]);
    other.none();
    desk.says(&other, vec![beat(0, Vec::new())]);
    other.offer();
}

#[test]
fn an_end_that_is_told_twice_is_no_late_outcome() {
    let mut desk = Desk::new();
    let (w, job, spec) = started(&mut desk);
    desk.ends(&w, spec.ticket, 0);
    desk.ends(&w, spec.ticket, 0);
    desk.check(job, "success: success");
    assert_eq!(desk.attempts(job)[0].late_outcome, None);
}

#[test]
fn word_of_an_end_confirms_what_was_given_up() {
    let mut desk = Desk::new();
    let (w, job, spec) = started(&mut desk);
    desk.hang_up(&w);
    desk.pass(SECOND * 120);
    desk.check(job, "failed: failed");
    assert!(!desk.attempts(job)[0].confirmed);
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Running)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::Finish);
    let (ticket, detail) = (spec.ticket, String::new());
    desk.says(&w, vec![WorkerMessage::Lost { ticket, loss: Loss::RunnerLost, detail }]);
    let attempt = &desk.attempts(job)[0];
    assert_eq!((attempt.state.as_str(), attempt.confirmed), ("lost", true));
}

/// The word that it may start never came. It is taken back when its worker returns, and nobody waits for its log, or doubts that it is over.
#[test]
fn what_was_given_up_before_its_leave_came_is_over_for_certain_when_its_worker_is_back() {
    let mut desk = Desk::new();
    let (w, job, spec) = started(&mut desk);
    desk.hang_up(&w);
    desk.pass(SECOND * 300);
    desk.check(job, "failed: failed");
    let attempt = engine::AttemptId(spec.ticket.attempt);
    assert!(!desk.attempts(job)[0].confirmed && desk.reader.log_state(attempt).expect("a look").closed);
    let mut w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, HeldState::Waiting)]);
    assert_eq!(w.welcome.verdicts[0].verdict, VerdictKind::StopKill);
    let (ticket, detail) = (spec.ticket, "taken back before it was started".to_owned());
    desk.says(&w, vec![WorkerMessage::Lost { ticket, loss: Loss::Void, detail }]);
    assert!(desk.attempts(job)[0].confirmed);
    let log = desk.reader.log_state(attempt).expect("a look");
    assert!(log.complete && !log.closed, "{log:?}");
    let words = w.take();
    assert!(words.iter().any(|word| matches!(word, ServerMessage::Forget { .. })), "{words:?}");
}

/// Its disk fails, and all that it can say is the attempt's name: that is enough to wait for it, and to believe its loss.
#[test]
fn a_worker_that_cannot_read_its_record_is_believed_by_the_attempts_name() {
    let mut desk = Desk::new();
    let (w, job, spec) = started(&mut desk);
    desk.hang_up(&w);
    let ticket = Ticket { fence: 0, ..spec.ticket };
    let unread = protocol::link::HeldAttempt { ticket, unsure: true, ..held(&spec, HeldState::Running) };
    let back = desk.connect(w.worker, "w", "script", 1, vec![unread]);
    assert_eq!(back.welcome.verdicts[0].verdict, VerdictKind::Continue);
    desk.check(job, "running: running");
    let detail = "its folder was removed".to_owned();
    desk.says(&back, vec![WorkerMessage::Lost { ticket, loss: Loss::RunnerLost, detail }]);
    desk.check(job, "failed: failed");
    assert!(desk.attempts(job)[0].confirmed);
}

/// Given up before it came back: what it says then is the proof that nothing of it runs.
#[test]
fn a_worker_that_cannot_read_its_record_proves_an_attempt_over_by_its_name() {
    let mut desk = Desk::new();
    let (w, job, spec) = started(&mut desk);
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(150));
    desk.check(job, "failed: failed");
    assert!(!desk.attempts(job)[0].confirmed);
    let ticket = Ticket { fence: 0, ..spec.ticket };
    let unread = protocol::link::HeldAttempt { ticket, unsure: true, ..held(&spec, HeldState::Running) };
    let back = desk.connect(w.worker, "w", "script", 1, vec![unread]);
    let detail = "its folder was removed".to_owned();
    desk.says(&back, vec![WorkerMessage::Lost { ticket, loss: Loss::RunnerLost, detail }]);
    assert!(desk.attempts(job)[0].confirmed);
}

/// The ticket on record has a fence, under which that worker would look for nothing.
#[test]
fn a_worker_that_cannot_read_its_record_is_told_to_stop_by_the_name_that_it_knows() {
    let mut desk = Desk::new();
    let (w, job, spec) = started(&mut desk);
    desk.hang_up(&w);
    let ticket = Ticket { fence: 0, ..spec.ticket };
    let unread = protocol::link::HeldAttempt { ticket, unsure: true, ..held(&spec, HeldState::Running) };
    let mut back = desk.connect(w.worker, "w", "script", 1, vec![unread]);
    desk.event(job, Event::Cancel { by: "eve".to_owned(), force: false }).expect("it runs");
    assert!(matches!(back.one(), ServerMessage::Stop { ticket: told, .. } if told == ticket));
}
