//! Which log is sent next, and how much may be on its way.
//!
//! Round-robin between attempts, one frame each, so that a flood in one log does not hold up the others. Only frames
//! that are on their way count in memory; the rest stays on disk. No files here: lines come from [`Logs`].

use std::collections::{BTreeMap, VecDeque};
use std::io;

use planted::Bug;
use protocol::attempt::Ticket;
use protocol::link::{LOG_WINDOW_BYTES, LogHeader, MissingCause, encode_log};
use protocol::log::{BLOCK_BYTES_MAX, Span};

/// Where the attempts' logs are: in their runners' files, or in what stands for those in a simulation.
pub trait Logs {
    /// A place in one log, as its reader remembers it. It begins anywhere.
    type Cursor: Default;

    /// The next lines of this log from `next_seq` on, or from the first after it that is there, in at most one block's
    /// greatest size; `None` if there are no more for now. `buffer` is only lent, so that many logs need one.
    fn read(
        &mut self,
        ticket: Ticket,
        next_seq: u64,
        cursor: &mut Self::Cursor,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Option<Piece>>;
}

/// Some whole blocks whose lines follow each other without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub span: Span,
    pub blocks: Vec<u8>,
    /// Why lines are missing before it; without meaning where none are.
    pub cause: MissingCause,
}

/// Decides what is sent next. `Cursor` is that of the [`Logs`] it reads from.
pub struct Shipper<Cursor> {
    /// In order, so that the same logs are looked at in the same turn.
    logs: BTreeMap<Ticket, Shipment<Cursor>>,
    /// Logs that may have something to send; each at most once.
    turns: VecDeque<Ticket>,
    unacknowledged: usize,
    buffer: Vec<u8>,
}

struct Shipment<Cursor> {
    cursor: Cursor,
    /// The number of the next line to send, unless that one is missing.
    next_seq: u64,
    end: LogEnd,
    on_the_way: VecDeque<Sent>,
    /// Frames without an answer: each gets one.
    unanswered: usize,
    /// How many of them are from before the last rewind.
    old_answers: usize,
    has_turn: bool,
    /// The frame that says so was sent.
    complete: bool,
}

/// A frame that was sent and not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    last_seq: u64,
    /// What it takes of the window.
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogEnd {
    Open,
    /// The attempt's last line, by its exit record.
    At(u64),
    /// The runner died: what is there is all.
    WhereFilesEnd,
}

impl<Cursor> Default for Shipper<Cursor> {
    fn default() -> Self {
        Shipper { logs: BTreeMap::new(), turns: VecDeque::new(), unacknowledged: 0, buffer: Vec::new() }
    }
}

impl<Cursor: Default> Shipper<Cursor> {
    /// Sends this log from the line after `after_seq`, whatever was sent before. It gets its first turn when it has
    /// grown or ended: most logs are empty then, and cost nothing.
    pub fn start(&mut self, ticket: Ticket, after_seq: u64) {
        self.stop(ticket);
        let shipment = Shipment {
            cursor: Cursor::default(),
            next_seq: if planted::is(Bug::LinesTwice) { 1 } else { after_seq.saturating_add(1) },
            end: LogEnd::Open,
            on_the_way: VecDeque::new(),
            unanswered: 0,
            old_answers: 0,
            has_turn: false,
            complete: false,
        };
        self.logs.insert(ticket, shipment);
    }

    /// There may be more of it.
    pub fn grew(&mut self, ticket: Ticket) {
        self.give_turn(ticket);
    }

    /// No more lines come after `last_seq`. `None`: the log ends where its files end.
    pub fn ended(&mut self, ticket: Ticket, last_seq: Option<u64>) {
        if let Some(shipment) = self.logs.get_mut(&ticket) {
            shipment.end = last_seq.map_or(LogEnd::WhereFilesEnd, LogEnd::At);
            self.give_turn(ticket);
        }
    }

    /// The server has answered a frame: it has the log up to this line. `dropped`: it had no room for that frame.
    pub fn acknowledged(&mut self, ticket: Ticket, seq: u64, dropped: bool) {
        let Some(shipment) = self.logs.get_mut(&ticket) else { return };
        shipment.unanswered = shipment.unanswered.saturating_sub(1);
        let mut taken = false;
        while let Some(sent) = shipment.on_the_way.pop_front_if(|sent| sent.last_seq <= seq) {
            self.unacknowledged -= sent.bytes;
            taken = true;
        }
        if shipment.old_answers > 0 {
            shipment.old_answers -= 1;
        } else if dropped {
            // It gets its turn with the next look: sent at once, it would find as little room.
            self.rewind(ticket, seq);
        } else if !taken && !shipment.on_the_way.is_empty() {
            self.rewind(ticket, seq);
            self.give_turn(ticket);
        }
    }

    /// The server did not take what was sent, and says where it stands: all that comes after is sent again.
    fn rewind(&mut self, ticket: Ticket, seq: u64) {
        let Some(shipment) = self.logs.get(&ticket) else { return };
        tracing::debug!(attempt = %ticket.attempt, seq, "a log is sent again from here");
        let (end, unanswered) = (shipment.end, shipment.unanswered);
        self.start(ticket, seq);
        if let Some(shipment) = self.logs.get_mut(&ticket) {
            (shipment.end, shipment.unanswered, shipment.old_answers) = (end, unanswered, unanswered);
        }
    }

    /// Nothing more of this log is sent.
    pub fn stop(&mut self, ticket: Ticket) {
        if let Some(shipment) = self.logs.remove(&ticket) {
            self.unacknowledged -= shipment.on_the_way.iter().map(|sent| sent.bytes).sum::<usize>();
        }
    }

    /// The link is gone, and with it all that was on its way.
    pub fn stop_all(&mut self) {
        self.logs.clear();
        self.turns.clear();
        self.unacknowledged = 0;
    }

    /// How many logs it looks after.
    pub fn holds(&self) -> usize {
        self.logs.len()
    }

    /// Whether a log may grow without a word, so that it is worth looking.
    pub fn is_watching(&self) -> bool {
        self.logs.values().any(|shipment| !shipment.complete)
    }

    /// The floor under lost hints.
    pub fn look_at_all(&mut self) {
        let open: Vec<Ticket> = self.logs.iter().filter(|(_, log)| !log.complete).map(|(ticket, _)| *ticket).collect();
        for ticket in open {
            self.give_turn(ticket);
        }
    }

    /// The next frame to send; `None` if there is none or too much is on its way.
    pub fn next_frame(&mut self, logs: &mut impl Logs<Cursor = Cursor>) -> Option<Vec<u8>> {
        while self.unacknowledged + BLOCK_BYTES_MAX <= LOG_WINDOW_BYTES {
            let ticket = self.turns.pop_front()?;
            let Some(shipment) = self.logs.get_mut(&ticket) else { continue };
            shipment.has_turn = false;
            let frame = shipment.next_frame(ticket, logs, &mut self.buffer);
            if let Some(frame) = frame {
                self.unacknowledged += frame.weight;
                self.give_turn(ticket);
                return Some(frame.bytes);
            }
        }
        None
    }

    fn give_turn(&mut self, ticket: Ticket) {
        if let Some(shipment) = self.logs.get_mut(&ticket)
            && !shipment.has_turn
            && !shipment.complete
        {
            shipment.has_turn = true;
            self.turns.push_back(ticket);
        }
    }
}

struct Frame {
    bytes: Vec<u8>,
    /// What it takes of the window.
    weight: usize,
}

impl<Cursor> Shipment<Cursor> {
    fn next_frame(
        &mut self,
        ticket: Ticket,
        logs: &mut impl Logs<Cursor = Cursor>,
        buffer: &mut Vec<u8>,
    ) -> Option<Frame> {
        // An empty log, or one that was sent whole before its end was known, needs no look at the disk.
        let all_sent = matches!(self.end, LogEnd::At(last_seq) if self.next_seq > last_seq);
        let piece = if all_sent { None } else { self.read(ticket, logs, buffer)? };
        let Some(piece) = piece else {
            return self.completion(ticket);
        };
        let missing = piece.span.first_seq - self.next_seq;
        let last_seq = piece.span.last_seq;
        self.next_seq = last_seq + 1;
        self.complete = self.end == LogEnd::At(last_seq)
            || (planted::is(Bug::LogCompleteTooEarly) && matches!(self.end, LogEnd::At(_)));
        self.sent(Sent { last_seq, bytes: piece.blocks.len() });
        let (first_seq, cause, complete) = (piece.span.first_seq, piece.cause, self.complete);
        let header = LogHeader { ticket, first_seq, last_seq, missing, cause, complete };
        Some(Frame { bytes: encode_log(&header, &piece.blocks), weight: piece.blocks.len() })
    }

    /// The outer `None`: cannot be read now, try again later.
    fn read(
        &mut self,
        ticket: Ticket,
        logs: &mut impl Logs<Cursor = Cursor>,
        buffer: &mut Vec<u8>,
    ) -> Option<Option<Piece>> {
        match logs.read(ticket, self.next_seq, &mut self.cursor, buffer) {
            Ok(piece) => Some(piece),
            Err(error) => {
                tracing::warn!(attempt = %ticket.attempt, %error, "a log cannot be read now");
                None
            }
        }
    }

    fn sent(&mut self, frame: Sent) {
        self.on_the_way.push_back(frame);
        self.unanswered += 1;
    }

    /// All that is there was sent. If the log has ended, that is said in a frame without lines.
    fn completion(&mut self, ticket: Ticket) -> Option<Frame> {
        let last_seq = match self.end {
            LogEnd::Open => return None,
            LogEnd::At(last_seq) => last_seq,
            LogEnd::WhereFilesEnd => self.next_seq - 1,
        };
        self.complete = true;
        self.sent(Sent { last_seq, bytes: 0 });
        // The disk was full to the end: the last lines were printed, and are nowhere.
        let missing = (last_seq + 1).saturating_sub(self.next_seq);
        let cause = if missing > 0 { MissingCause::Unwritten } else { MissingCause::default() };
        let header = LogHeader { ticket, first_seq: last_seq + 1, last_seq, missing, cause, complete: true };
        Some(Frame { bytes: encode_log(&header, &[]), weight: 0 })
    }
}
