//! Log blocks: whole, once, in order, acknowledged after the commit.

use protocol::attempt::Ticket;
use protocol::link::{LogHeader, MissingCause, ServerMessage};
use protocol::log::{BlockEncoder, LineEnd, Stream};

use crate::desk::{Desk, Mailbox, ONE};

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

fn send(desk: &mut Desk, w: &mut Mailbox, ticket: Ticket, first: u64, last: u64, complete: bool) -> u64 {
    let header =
        LogHeader { ticket, first_seq: first, last_seq: last, missing: 0, cause: MissingCause::Limit, complete };
    desk.log(w, header, blocks(first, last));
    match &w.take()[0] {
        ServerMessage::LogAck { seq, .. } => *seq,
        other => panic!("an acknowledgement, not {other:?}"),
    }
}

fn lines(desk: &Desk, ticket: Ticket) -> Vec<u64> {
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
