//! Log blocks on their way to the store: continued where they left off, never twice, acknowledged after the commit.

use engine::{AttemptId, WorkerId};
use planted::Bug;
use protocol::attempt::Ticket;
use protocol::link::{Hello, LogHeader, MissingCause, ServerMessage};
use store::{LogAppend, LogDeadline, Store};

use crate::dispatch::LinkId;

use super::command::LogFrame;
use super::core::Core;
use super::links::{Link, LogPosition};
use super::round::Round;

impl Round {
    /// Where a log stands with what this round adds to it, be it on another link of the same worker.
    pub(super) fn stands(&self, attempt: AttemptId, stored: LogPosition) -> LogPosition {
        let added = self.logs.iter().rfind(|append| append.attempt == attempt);
        let position = added.map_or(stored, |append| LogPosition {
            last_seq: append.last_seq,
            complete: append.complete,
            moved_at: Some(self.now),
            end_seq: stored.end_seq,
            ..LogPosition::default()
        });
        let here = self.marks.iter().filter(|mark| (mark.attempt, mark.after_seq) == (attempt, position.last_seq));
        LogPosition { announced: position.announced + here.map(|mark| mark.missing).sum::<u64>(), ..position }
    }

    /// Whether every line of this log is in the round.
    fn writes_all_of(&self, attempt: AttemptId) -> bool {
        self.logs.iter().find(|append| append.attempt == attempt).is_some_and(|first| first.first_seq == 1)
    }
}

impl<S: Store> Core<S> {
    pub(super) fn log(&mut self, link: LinkId, header: &LogHeader, blocks: &[u8], round: &mut Round) {
        let attempt = AttemptId(header.ticket.attempt);
        let Some(position) = self.log_position(link, attempt, round) else {
            self.log_is_strange(link, header.ticket, round);
            return;
        };
        if planted::is(Bug::ReplayDropped) && header.last_seq >= header.first_seq + 10 {
            return;
        }
        let Some(position) = self.as_on_record(link, header, position, round) else { return };
        let header = &up_to_its_end(*header, position);
        let gap = header.first_seq.saturating_sub(position.last_seq + 1);
        if gap > header.missing {
            // Something before this should come first: say where we are, and it is sent again from there.
            self.acknowledge(link, header.ticket, position.last_seq, round);
            return;
        }
        let news = header.last_seq > position.last_seq;
        if news || (header.complete && !position.complete) {
            self.mark_gap(attempt, position, gap, header.cause, round);
            let blocks = match (news, header.first_seq <= position.last_seq) {
                (false, _) => Vec::new(),
                (true, false) => blocks.to_vec(),
                (true, true) if planted::is(Bug::LinesTwice) => blocks.to_vec(),
                (true, true) => match protocol::log::trim_to(blocks, position.last_seq) {
                    Ok(rest) => rest.into_owned(),
                    Err(error) => {
                        tracing::warn!(%attempt, %error, "log blocks that were checked cannot be read");
                        self.acknowledge(link, header.ticket, position.last_seq, round);
                        return;
                    }
                },
            };
            let last_seq = header.last_seq.max(position.last_seq);
            round.logs.push(LogAppend {
                attempt,
                first_seq: header.first_seq.max(position.last_seq + 1),
                last_seq,
                blocks,
                missing: gap,
                complete: header.complete,
            });
            let complete = header.complete || position.complete;
            if complete {
                round.whole.insert(attempt);
            } else if position.closed {
                // It is open again, and has its time again.
                let close_at = round.now + self.config.rules.recovery_window;
                round.log_deadlines.push(LogDeadline { attempt, close_at, end_seq: None });
            }
            if let Some(known) = self.links.get_mut(&link) {
                let (moved_at, end_seq) = (Some(round.now), position.end_seq);
                let stored = LogPosition { last_seq, complete, moved_at, end_seq, ..LogPosition::default() };
                known.logs.insert(attempt, stored);
            }
        }
        let stored = self.log_position(link, attempt, round).unwrap_or_default();
        self.acknowledge(link, header.ticket, stored.last_seq, round);
        self.forget_if_whole(link, attempt, header.ticket, round);
    }

    /// What was said of a gap may have been lost with its commit, and then nobody would say it: where lines follow on a gap the rows are
    /// asked. None where they cannot be read: it is decided anew when they can.
    fn as_on_record(
        &mut self,
        link: LinkId,
        header: &LogHeader,
        position: LogPosition,
        round: &Round,
    ) -> Option<LogPosition> {
        let is_after_gap = header.first_seq > position.last_seq + 1;
        if position.announced == 0 || !is_after_gap || !self.siblings.is_shared() {
            return Some(position);
        }
        let attempt = AttemptId(header.ticket.attempt);
        if let Some(known) = self.links.get_mut(&link) {
            known.logs.remove(&attempt);
        }
        self.log_position(link, attempt, round)
    }

    /// A frame found no room in the queue. Its worker sends it again, when there may be some.
    pub(super) fn log_dropped(&mut self, link: LinkId, ticket: Ticket, round: &mut Round) {
        self.metrics.log_frames_dropped.inc();
        match self.log_position(link, AttemptId(ticket.attempt), round) {
            Some(LogPosition { last_seq: seq, .. }) => {
                round.outgoing.push((None, link, ServerMessage::LogAck { ticket, seq, dropped: true }));
            }
            None => self.log_is_strange(link, ticket, round),
        }
    }

    /// A frame could not be written. Its worker is to send it once more: without an answer it would wait for ever, and what
    /// the database did not like may be over. If that is the frame itself, the log's own deadline closes it.
    pub(super) fn log_refused(&mut self, frame: &LogFrame, round: &mut Round) {
        let LogFrame { link, header: LogHeader { ticket, .. }, .. } = frame;
        let Some(known) = self.links.get_mut(link) else { return };
        match known.refused_logs.insert(AttemptId(ticket.attempt), *ticket) {
            None => self.log_dropped(*link, *ticket, round),
            // What this link knows of the log may be older than the end of its job: another server may have deleted that.
            Some(_) => self.ended_stranger_is_over(*link, *ticket, round),
        }
    }

    /// A frame is stored: if the next one is refused, that has nothing to do with this one.
    pub(super) fn log_taken(&mut self, frame: &LogFrame) {
        let Some(known) = self.links.get_mut(&frame.link) else { return };
        let attempt = AttemptId(frame.header.ticket.attempt);
        if known.logs.get(&attempt).is_none_or(|position| position.last_seq >= frame.header.last_seq) {
            known.refused_logs.remove(&attempt);
        }
    }

    /// The log is closed: whoever has a frame of it that was refused, and not asked for since, may send it now.
    pub(super) fn ask_for_refused(&mut self, attempt: AttemptId, round: &mut Round) {
        let refused = |(link, known): (&LinkId, &Link)| Some((*link, *known.refused_logs.get(&attempt)?));
        let asked: Vec<(LinkId, Ticket)> = self.links.iter().filter_map(refused).collect();
        for (link, ticket) in asked {
            self.log_dropped(link, ticket, round);
        }
    }

    /// Lines of an attempt that nobody here granted.
    fn log_is_strange(&mut self, link: LinkId, ticket: Ticket, round: &mut Round) {
        let message = ServerMessage::StaleDispatch { ticket, about: "log".to_owned() };
        round.outgoing.push((None, link, message));
        self.ended_stranger_is_over(link, ticket, round);
    }

    fn acknowledge(&mut self, link: LinkId, ticket: Ticket, seq: u64, round: &mut Round) {
        round.outgoing.push((None, link, ServerMessage::LogAck { ticket, seq, dropped: false }));
    }

    /// An attempt that never started has nothing to send, and its worker sends nothing.
    pub(super) fn log_is_empty(&mut self, link: LinkId, attempt: AttemptId, round: &mut Round) {
        let Some(LogPosition { last_seq: 0, complete: false, .. }) = self.log_position(link, attempt, round) else {
            return;
        };
        let (first_seq, last_seq, blocks) = (1, 0, Vec::new());
        round.logs.push(LogAppend { attempt, first_seq, last_seq, blocks, missing: 0, complete: true });
        round.whole.insert(attempt);
        if let Some(known) = self.links.get_mut(&link) {
            known.logs.insert(attempt, LogPosition { complete: true, ..LogPosition::default() });
        }
    }

    /// A granted attempt has no lines yet: knowing that saves a look into the store.
    pub(super) fn log_begins(&mut self, worker: WorkerId, attempt: AttemptId) {
        if let Some(known) = self.effect_target(worker).and_then(|link| self.links.get_mut(&link)) {
            known.logs.entry(attempt).or_default();
        }
    }

    /// How far the logs of all that a worker brings are stored, in one look.
    pub(super) fn remember_log_positions(&mut self, link: LinkId, hello: &Hello, round: &Round) {
        let attempts: Vec<AttemptId> = hello.held.iter().map(|held| AttemptId(held.ticket.attempt)).collect();
        let known: Vec<AttemptId> = attempts.into_iter().filter(|a| self.place(*a).is_some()).collect();
        if known.is_empty() {
            return;
        }
        match self.store.reader().log_states(&known) {
            Ok(states) => {
                let Some(link) = self.links.get_mut(&link) else { return };
                let stored = known.into_iter().zip(states.into_iter().map(LogPosition::from));
                link.logs.extend(stored.map(|(attempt, position)| (attempt, round.stands(attempt, position))));
            }
            // Each is looked up again when it is needed.
            Err(error) => tracing::warn!(%error, "the positions of logs could not be read"),
        }
    }

    /// Whether a log that is remembered as whole is so by the rows as well. A database that others share can lose commits under a
    /// server; if they were nothing but pieces of a log, no event and no mark tells of it. What is missing is asked for.
    pub(super) fn is_whole_on_record(&mut self, link: LinkId, ticket: Ticket, round: &mut Round) -> bool {
        let attempt = AttemptId(ticket.attempt);
        // What this round writes from its first line on had nothing that could be lost.
        if !self.siblings.is_shared() || round.writes_all_of(attempt) {
            return true;
        }
        if let Some(known) = self.links.get_mut(&link) {
            known.logs.remove(&attempt);
        }
        match self.log_position(link, attempt, round) {
            Some(LogPosition { complete: true, .. }) => true,
            Some(LogPosition { last_seq, .. }) => {
                tracing::warn!(%attempt, last_seq, "lines of a log are not on record any more; they are asked for again");
                round.outgoing.push((None, link, ServerMessage::LogAck { ticket, seq: last_seq, dropped: true }));
                false
            }
            // Its job was deleted by another server; or the rows cannot be read, and it is decided anew when they can.
            None => {
                self.stranger_is_over(link, ticket, round);
                false
            }
        }
    }

    /// A worker says an end once more: it was not told to forget it, since the log is not whole. It may have sent all of that, and a database
    /// that others share has lost the rest.
    pub(super) fn ask_for_the_rest(&mut self, link: LinkId, ticket: Ticket, round: &mut Round) {
        if !self.siblings.is_shared() {
            return;
        }
        if let Some(LogPosition { last_seq: seq, complete: false, .. }) =
            self.log_position(link, AttemptId(ticket.attempt), round)
        {
            round.outgoing.push((None, link, ServerMessage::LogAck { ticket, seq, dropped: true }));
        }
    }

    /// How far this attempt's log is stored; none for an attempt that was never granted.
    pub(super) fn log_position(&mut self, link: LinkId, attempt: AttemptId, round: &Round) -> Option<LogPosition> {
        if let Some(known) = self.links.get(&link).and_then(|l| l.logs.get(&attempt)) {
            return Some(*known);
        }
        self.place(attempt)?;
        let state = match self.ahead.log(attempt).map_or_else(|| self.store.reader().log_state(attempt), Ok) {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(%attempt, %error, "a log's position could not be read");
                self.cache.missed(&error);
                return None;
            }
        };
        let position = round.stands(attempt, LogPosition::from(state));
        if let Some(known) = self.links.get_mut(&link) {
            known.logs.insert(attempt, position);
        }
        Some(position)
    }
}

/// Its worker has no more than it has sent, and said once that there are more: those went with its disk. The frame counts for
/// one that says so.
fn up_to_its_end(header: LogHeader, stored: LogPosition) -> LogHeader {
    let is_last_word = header.complete && header.first_seq > header.last_seq;
    let end = stored.end_seq.filter(|end| is_last_word && *end > header.last_seq.max(stored.last_seq));
    end.map_or(header, |end| {
        let missing = header.missing + (end - header.last_seq);
        LogHeader { first_seq: end + 1, last_seq: end, missing, cause: MissingCause::Other, ..header }
    })
}
