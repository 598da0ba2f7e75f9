//! Log blocks: whole, once, in order, acknowledged after the commit.

use std::time::Duration;

use protocol::attempt::{AttemptSpec, End, Ticket};
use protocol::link::{HeldAttempt, HeldState, Hello, LogHeader, Loss, MissingCause, ServerMessage, WorkerMessage};
use protocol::log::{BlockEncoder, LineEnd, Stream};
use server::dispatch::LinkId;
use server::ledger::{Command, LinkEvent, LinkSender};
use store::Store;

use crate::cluster::{Cluster, running};
use crate::desk::{Desk, Mailbox, ONE, exited, hello};

fn blocks(first: u64, last: u64) -> Vec<u8> {
    let mut encoder = BlockEncoder::new(first);
    for seq in first..=last {
        encoder.push(
            i64::try_from(seq).expect("small"),
            Stream::Stdout,
            LineEnd::Newline,
            format!("line {seq}").as_bytes(),
        );
    }
    encoder.seal().expect("lines").to_vec()
}

fn send<S: Store>(desk: &mut Desk<S>, w: &mut Mailbox, ticket: Ticket, first: u64, last: u64, complete: bool) -> u64 {
    let header =
        LogHeader { ticket, first_seq: first, last_seq: last, missing: 0, cause: MissingCause::Limit, complete };
    desk.log(w, header, blocks(first, last));
    match &w.take()[0] {
        ServerMessage::LogAck { seq, .. } => *seq,
        other => panic!("an acknowledgement, not {other:?}"),
    }
}

fn lines<S: Store>(desk: &Desk<S>, ticket: Ticket) -> Vec<u64> {
    let chunks = desk.reader.log_chunks(engine::AttemptId(ticket.attempt), 1, 1 << 20).expect("readable");
    let mut seqs = Vec::new();
    for chunk in &chunks {
        for block in protocol::log::Blocks::new(&chunk.blocks) {
            seqs.extend(block.expect("sound").lines().map(|line| line.seq));
        }
    }
    seqs
}

#[test]
fn repeats_are_dropped_overlaps_cut_and_gaps_asked_for() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    assert_eq!(send(&mut desk, &mut w, ticket, 1, 3, false), 3);
    assert_eq!(send(&mut desk, &mut w, ticket, 1, 3, false), 3, "a repeat");
    assert_eq!(send(&mut desk, &mut w, ticket, 6, 7, false), 3, "a gap");
    assert_eq!(send(&mut desk, &mut w, ticket, 2, 5, false), 5, "an overlap");
    assert_eq!(send(&mut desk, &mut w, ticket, 6, 7, true), 7);
    assert_eq!(lines(&desk, ticket), (1..=7).collect::<Vec<_>>());
    assert!(desk.log_state(ticket).complete);
}

#[test]
fn a_log_goes_on_after_a_restart_of_the_server() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let spec = desk.start(&mut w);
    send(&mut desk, &mut w, spec.ticket, 1, 3, false);
    desk.restart();
    let held = protocol::link::HeldAttempt {
        ticket: spec.ticket,
        job: spec.job,
        step: spec.step.clone(),
        state: protocol::link::HeldState::Running,
        log_first_seq: 1,
        log_last_seq: 5,
        events: 0,
        unsure: false,
    };
    let mut w = desk.connect(w.worker, "w", "script", 1, vec![held]);
    assert_eq!(w.welcome.verdicts[0].log_acked_seq, 3);
    assert_eq!(send(&mut desk, &mut w, spec.ticket, 4, 5, true), 5);
    assert_eq!(lines(&desk, spec.ticket), (1..=5).collect::<Vec<_>>());
}

#[test]
fn lines_of_an_attempt_that_was_never_granted_are_not_stored() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let stranger = Ticket { attempt: uuid::Uuid::from_u128(42), fence: 1 };
    w.take();
    let header = LogHeader {
        ticket: stranger,
        first_seq: 1,
        last_seq: 1,
        missing: 0,
        cause: MissingCause::Limit,
        complete: false,
    };
    desk.log(&w, header, blocks(1, 1));
    assert!(matches!(w.one(), ServerMessage::StaleDispatch { .. }));
}

#[test]
fn lines_that_a_worker_had_to_give_up_do_not_hold_up_the_rest() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    send(&mut desk, &mut w, ticket, 1, 3, false);
    let header =
        LogHeader { ticket, first_seq: 10, last_seq: 12, missing: 6, cause: MissingCause::Limit, complete: false };
    desk.log(&w, header, blocks(10, 12));
    assert!(matches!(w.one(), ServerMessage::LogAck { seq: 12, .. }));
    // And at the very end, where nothing is left to send.
    let header =
        LogHeader { ticket, first_seq: 16, last_seq: 15, missing: 3, cause: MissingCause::Limit, complete: true };
    desk.log(&w, header, Vec::new());
    assert!(matches!(w.one(), ServerMessage::LogAck { seq: 15, .. }));
    assert_eq!(lines(&desk, ticket), [1, 2, 3, 10, 11, 12]);
    assert!(desk.log_state(ticket).complete);
}

/// What a worker that comes back says of this attempt.
fn held(spec: &AttemptSpec, first: u64, last: u64, events: u32) -> HeldAttempt {
    HeldAttempt {
        ticket: spec.ticket,
        job: spec.job,
        step: spec.step.clone(),
        state: HeldState::Running,
        log_first_seq: first,
        log_last_seq: last,
        events,
        unsure: false,
    }
}

/// The server's own lines, as `place text`.
fn marks<S: Store>(desk: &Desk<S>, ticket: Ticket) -> Vec<String> {
    let marks = desk.reader.log_marks(engine::AttemptId(ticket.attempt), 0, 1_000, 100).expect("readable");
    marks.iter().map(|mark| format!("{}.{} {}", mark.after_seq, mark.sub, mark.text)).collect()
}

#[test]
fn an_outage_is_marked_where_the_replay_begins() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let spec = desk.start(&mut w);
    send(&mut desk, &mut w, spec.ticket, 1, 3, false);
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(12));
    let mut w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, 1, 8, 2)]);
    let first = "3.1 --- Orchestrator offline for 12s. Replaying 2 buffered events and 5 buffered log lines. ---";
    assert_eq!(marks(&desk, spec.ticket), [first]);
    send(&mut desk, &mut w, spec.ticket, 4, 8, false);
    // Another one, in which nothing waited.
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(5));
    let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, 1, 8, 0)]);
    assert_eq!(marks(&desk, spec.ticket), [first]);
    // And one of the worker itself, which had to drop lines.
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(30));
    desk.session += 1;
    let mut w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, 12, 20, 0)]);
    let second = "8.1 --- Worker offline for 30s. Replaying 0 buffered events and 9 buffered log lines. \
                  3 log lines dropped due to buffer overflow. ---";
    assert_eq!(marks(&desk, spec.ticket), [first, second]);
    // What was said to be gone is not said again; what went since is.
    let header = LogHeader {
        ticket: spec.ticket,
        first_seq: 14,
        last_seq: 20,
        missing: 5,
        cause: MissingCause::Limit,
        complete: true,
    };
    w.take();
    desk.log(&w, header, blocks(14, 20));
    let third = "8.2 --- 2 log lines dropped due to buffer overflow. ---";
    assert_eq!(marks(&desk, spec.ticket), [first, second, third]);
}

#[test]
fn missing_lines_are_marked_with_their_cause() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    for (n, cause) in [(1, MissingCause::Limit), (3, MissingCause::Unwritten), (5, MissingCause::Damaged)] {
        let header = LogHeader { ticket, first_seq: n + 1, last_seq: n + 1, missing: 1, cause, complete: false };
        desk.log(&w, header, blocks(n + 1, n + 1));
    }
    let expected = [
        "0.1 --- 1 log lines dropped due to buffer overflow. ---",
        "2.1 --- 1 log lines lost: the worker's disk did not take them. ---",
        "4.1 --- 1 log lines lost: the worker's log file is damaged. ---",
    ];
    assert_eq!(marks(&desk, ticket), expected);
}

/// The worker was welcomed, and the commit of that is lost with the mark in it: the lines that follow come all the same.
#[test]
fn a_gap_whose_mark_is_not_on_record_is_marked_with_the_lines_that_follow() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    cluster.desk(0).submit(ONE);
    let spec = cluster.desk(0).start(&mut w);
    send(cluster.desk(0), &mut w, spec.ticket, 1, 3, false);
    cluster.desk(0).hang_up(&w);
    cluster.pass(Duration::from_secs(12));
    let before = cluster.database.commits();
    let w = cluster.desk(0).connect(w.worker, "w", "script", 1, vec![held(&spec, 12, 20, 0)]);
    cluster.database.forget_last(cluster.database.commits() - before);
    let (ticket, cause) = (spec.ticket, MissingCause::Limit);
    let header = LogHeader { ticket, first_seq: 12, last_seq: 20, missing: 8, cause, complete: false };
    cluster.desk(0).log(&w, header, blocks(12, 20));
    assert_eq!(marks(cluster.desk(0), ticket), ["3.1 --- 8 log lines dropped due to buffer overflow. ---"]);
    assert_eq!(lines(cluster.desk(0), ticket), [1, 2, 3, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
}

#[test]
fn a_log_that_does_not_come_is_closed_after_a_window_and_opened_again_if_it_does() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    send(&mut desk, &mut w, ticket, 1, 3, false);
    let end = End { log_last_seq: 9, ..exited(0) };
    desk.says(&w, vec![WorkerMessage::Ended { ticket, end }]);
    desk.pass(Duration::from_secs(119));
    assert!(!desk.log_state(ticket).complete, "it has a window to come");
    assert!(desk.core().wake_at() <= desk.now + Duration::from_secs(1), "and is looked at when that is over");
    desk.pass(Duration::from_secs(1));
    assert!(desk.log_state(ticket).complete);
    assert_eq!(marks(&desk, ticket), ["3.1 --- 6 log lines were not received: worker lost ---"]);
    w.take();
    // A closed log is no reason to forget what was never received.
    assert_eq!(send(&mut desk, &mut w, ticket, 4, 5, false), 5);
    assert!(!desk.log_state(ticket).complete);
    assert_eq!(marks(&desk, ticket), [""; 0]);
    // The rest takes its time: as long as lines come, it is not closed.
    desk.pass(Duration::from_secs(100));
    assert_eq!(send(&mut desk, &mut w, ticket, 6, 6, false), 6);
    desk.pass(Duration::from_secs(100));
    assert!(!desk.log_state(ticket).complete);
    desk.log(&w, whole(ticket, 7, 9), blocks(7, 9));
    let answers = w.take();
    assert!(matches!(answers[..], [ServerMessage::LogAck { seq: 9, .. }, ServerMessage::Forget { .. }]), "{answers:?}");
    desk.pass(Duration::from_secs(300));
    assert_eq!(marks(&desk, ticket), [""; 0]);
    assert!(desk.log_state(ticket).complete);
}

#[test]
fn lines_that_were_said_to_be_dropped_are_not_counted_again_when_a_log_is_closed() {
    // All that is missing was said already, or not all of it.
    for (last, closing) in [(20, Some("3.2 --- 9 log lines were not received: worker lost ---")), (11, None)] {
        let mut desk = Desk::new();
        let mut w = desk.worker("w", "script", 1);
        desk.submit(ONE);
        let spec = desk.start(&mut w);
        send(&mut desk, &mut w, spec.ticket, 1, 3, false);
        desk.hang_up(&w);
        desk.pass(Duration::from_secs(12));
        let w = desk.connect(w.worker, "w", "script", 1, vec![held(&spec, 12, 20, 0)]);
        let dropped = "3.1 --- Orchestrator offline for 12s. Replaying 0 buffered events and 9 buffered log lines. \
                       8 log lines dropped due to buffer overflow. ---";
        let end = End { log_last_seq: last, ..exited(0) };
        desk.says(&w, vec![WorkerMessage::Ended { ticket: spec.ticket, end }]);
        desk.pass(Duration::from_secs(120));
        assert!(desk.log_state(spec.ticket).complete);
        let expected: Vec<&str> = std::iter::once(dropped).chain(closing).collect();
        assert_eq!(marks(&desk, spec.ticket), expected);
    }
}

#[test]
fn the_log_of_a_lost_worker_is_closed_too_also_by_the_next_server() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    send(&mut desk, &mut w, ticket, 1, 3, false);
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(120));
    desk.check(job, "failed: failed");
    assert!(!desk.log_state(ticket).complete);
    desk.restart();
    desk.pass(Duration::from_secs(121));
    assert!(desk.log_state(ticket).complete);
    assert_eq!(marks(&desk, ticket), ["3.1 --- an unknown number of log lines were not received: worker lost ---"]);
}

#[test]
fn a_log_that_lacks_only_the_last_word_is_closed_without_one() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    send(&mut desk, &mut w, ticket, 1, 3, false);
    let end = End { log_last_seq: 3, ..exited(0) };
    desk.says(&w, vec![WorkerMessage::Ended { ticket, end }]);
    desk.hang_up(&w);
    desk.pass(Duration::from_secs(120));
    assert!(desk.log_state(ticket).complete);
    assert_eq!(marks(&desk, ticket), [""; 0]);
}

#[test]
fn a_log_is_not_whole_before_its_end_was_reported_to_be() {
    // Closed before its worker is back, and not.
    for away in [1, 300] {
        let mut desk = Desk::new();
        let mut w = desk.worker("w", "script", 1);
        desk.submit(ONE);
        let spec = desk.start(&mut w);
        let ticket = spec.ticket;
        send(&mut desk, &mut w, ticket, 1, 3, false);
        let end = End { log_last_seq: 9, ..exited(0) };
        desk.says(&w, vec![WorkerMessage::Ended { ticket, end }]);
        desk.hang_up(&w);
        desk.pass(Duration::from_secs(away));
        // Its disk has lost the record of the end, and most of the lines.
        let mut w = desk.connect(w.worker, "w", "script", 1, vec![running(&spec)]);
        let detail = "the machine was restarted".to_owned();
        desk.says(&w, vec![WorkerMessage::Lost { ticket, loss: Loss::MachineRebooted, detail }]);
        w.take();
        assert_eq!(send(&mut desk, &mut w, ticket, 4, 5, false), 5);
        desk.log(&w, whole(ticket, 6, 5), Vec::new());
        let answers = w.take();
        let told = matches!(answers[..], [ServerMessage::LogAck { seq: 9, .. }, ServerMessage::Forget { .. }]);
        assert!(told, "{answers:?}");
        let outage_and = marks(&desk, ticket).into_iter().filter(|mark| !mark.contains("Replaying"));
        assert_eq!(outage_and.collect::<Vec<_>>(), ["5.1 --- 4 log lines lost. ---"], "after {away} s");
        let log = desk.log_state(ticket);
        assert!(log.complete && !log.closed, "{log:?}");
    }
}

#[test]
fn an_attempt_that_never_started_has_a_whole_empty_log() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    let detail = String::new();
    desk.says(&w, vec![WorkerMessage::Lost { ticket, loss: Loss::Void, detail }]);
    let told = w.take();
    assert!(told.iter().any(|m| matches!(m, ServerMessage::Forget { .. })), "{told:?}");
    assert!(desk.log_state(ticket).complete);
}

#[test]
fn a_frame_without_room_is_asked_for_again() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let ticket = desk.start(&mut w).ticket;
    send(&mut desk, &mut w, ticket, 1, 3, false);
    desk.round(vec![Command::Link(LinkEvent::LogDropped { link: w.link, ticket })]);
    assert!(matches!(w.one(), ServerMessage::LogAck { seq: 3, dropped: true, .. }));
}

/// Its worker's disk was put back to where it had not begun, and says so.
#[test]
fn a_step_that_has_printed_something_has_started() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    let job = desk.submit(ONE);
    let spec = desk.start(&mut w);
    send(&mut desk, &mut w, spec.ticket, 1, 2, false);
    desk.restart();
    let waiting = HeldAttempt { state: HeldState::Waiting, ..running(&spec) };
    let w = desk.connect(w.worker, "w", "script", 1, vec![waiting]);
    let (ticket, detail) = (spec.ticket, String::new());
    desk.says(&w, vec![WorkerMessage::Lost { ticket, loss: Loss::Void, detail }]);
    desk.check(job, "failed: failed");
    assert!(!desk.log_state(ticket).complete);
    desk.pass(Duration::from_secs(200));
    assert!(desk.log_state(ticket).closed, "nobody waits for the rest for ever");
}

#[test]
fn what_is_missing_is_counted_once_however_many_hellos_come_at_a_time() {
    let mut desk = Desk::new();
    let mut w = desk.worker("w", "script", 1);
    desk.submit(ONE);
    let spec = desk.start(&mut w);
    send(&mut desk, &mut w, spec.ticket, 1, 3, false);
    let held = HeldAttempt { log_first_seq: 8, log_last_seq: 9, ..running(&spec) };
    let greeting = |link| {
        let hello = Hello { last_epoch: w.welcome.epoch, ..hello("w", "script", 1, vec![held.clone()]) };
        let (hello, (sender, _)) = (Box::new(hello), LinkSender::channel());
        Command::Link(LinkEvent::Hello { link: LinkId(link), worker: w.worker, hello, sender })
    };
    desk.round(vec![greeting(77), greeting(78)]);
    let all = desk.reader.log_marks(engine::AttemptId(spec.ticket.attempt), 0, u64::MAX, 100).expect("readable");
    assert_eq!(all.iter().map(|mark| mark.missing).sum::<u64>(), 4, "lines 4 to 7: {all:?}");
}

/// What is stored first, its end or its log, is chance; here the database has lost the log, and nothing else.
#[test]
fn a_log_that_is_only_remembered_as_whole_is_asked_for_again() {
    let mut cluster = Cluster::new(1);
    let mut w = cluster.desk(0).worker("w", "script", 1);
    cluster.desk(0).submit(ONE);
    let ticket = cluster.desk(0).start(&mut w).ticket;
    cluster.desk(0).log(&w, whole(ticket, 1, 3), blocks(1, 3));
    assert!(matches!(w.one(), ServerMessage::LogAck { seq: 3, .. }));
    assert_eq!(cluster.database.forget_last(1), 1);
    assert_eq!(cluster.desk(0).log_state(ticket).last_seq, 0);
    let end = End { log_last_seq: 3, ..exited(0) };
    cluster.desk(0).says(&w, vec![WorkerMessage::Ended { ticket, end }]);
    let asked = w.take();
    assert!(matches!(asked[..], [ServerMessage::LogAck { seq: 0, dropped: true, .. }]), "{asked:?}");
    cluster.desk(0).log(&w, whole(ticket, 1, 3), blocks(1, 3));
    let told = w.take();
    assert!(matches!(told[..], [ServerMessage::LogAck { seq: 3, .. }, ServerMessage::Forget { .. }]), "{told:?}");
    assert!(cluster.desk(0).log_state(ticket).complete);
}

fn whole(ticket: Ticket, first_seq: u64, last_seq: u64) -> LogHeader {
    LogHeader { ticket, first_seq, last_seq, missing: 0, cause: MissingCause::Limit, complete: true }
}
