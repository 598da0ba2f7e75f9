//! Sending logs, as the worker's shipping thread does.

use std::collections::{BTreeMap, BTreeSet};

use protocol::attempt::Ticket;
use protocol::link::{LogHeader, MissingCause, encode_log};

use crate::disk::Disk;

/// Lines of one frame.
const FRAME_LINES_MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Shipping {
    logs: BTreeMap<Ticket, Shipment>,
    turns: BTreeSet<Ticket>,
    up: bool,
}

#[derive(Debug)]
struct Shipment {
    sent: u64,
    end: Option<Option<u64>>,
    complete: bool,
}

impl Shipping {
    pub(crate) fn link_up(&mut self) {
        *self = Shipping { up: true, ..Shipping::default() };
    }

    pub(crate) fn link_down(&mut self) {
        *self = Shipping::default();
    }

    pub(crate) fn start(&mut self, ticket: Ticket, after_seq: u64) {
        self.logs.insert(ticket, Shipment { sent: after_seq, end: None, complete: false });
    }

    pub(crate) fn grew(&mut self, ticket: Ticket) {
        self.turns.insert(ticket);
    }

    pub(crate) fn ended(&mut self, ticket: Ticket, last_seq: Option<u64>) {
        if let Some(log) = self.logs.get_mut(&ticket) {
            log.end = Some(last_seq);
            self.turns.insert(ticket);
        }
    }

    pub(crate) fn acknowledged(&mut self, _ticket: Ticket, _seq: u64) {}

    pub(crate) fn stop(&mut self, ticket: Ticket) {
        self.logs.remove(&ticket);
    }

    pub(crate) fn next_frame(&mut self, disk: &Disk) -> Option<Vec<u8>> {
        while self.up {
            let ticket = *self.turns.first()?;
            let folder = disk.attempts.get(&ticket);
            let (Some(log), Some(folder)) = (self.logs.get_mut(&ticket), folder) else {
                self.turns.remove(&ticket);
                continue;
            };
            if log.complete {
                self.turns.remove(&ticket);
                continue;
            }
            if let Some((first_seq, last_seq, blocks)) = folder.log.block_after(log.sent, FRAME_LINES_MAX) {
                let missing = first_seq - log.sent - 1;
                log.sent = last_seq;
                log.complete = log.end == Some(Some(last_seq));
                let (cause, complete) = (MissingCause::default(), log.complete);
                let header = LogHeader { ticket, first_seq, last_seq, missing, cause, complete };
                return Some(encode_log(&header, &blocks));
            }
            self.turns.remove(&ticket);
            if let Some(end) = log.end {
                log.complete = true;
                let last_seq = end.unwrap_or(log.sent);
                let missing = last_seq.saturating_sub(log.sent);
                let cause = if missing > 0 { MissingCause::Unwritten } else { MissingCause::default() };
                let header = LogHeader { ticket, first_seq: last_seq + 1, last_seq, missing, cause, complete: true };
                return Some(encode_log(&header, &[]));
            }
        }
        None
    }
}
