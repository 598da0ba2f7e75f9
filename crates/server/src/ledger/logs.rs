//! Log blocks on their way to the store: continued where they left off, never twice, acknowledged after the commit.

use engine::{AttemptId, WorkerId};
use protocol::attempt::Ticket;
use protocol::link::{LogHeader, ServerMessage};
use store::{LogAppend, Store};

use crate::dispatch::LinkId;

use super::core::Core;
use super::links::LogPosition;
use super::round::Round;

impl<S: Store> Core<S> {
    pub(super) fn log(&mut self, link: LinkId, header: &LogHeader, blocks: &[u8], round: &mut Round) {
        let attempt = AttemptId(header.ticket.attempt);
        let Some(position) = self.log_position(link, attempt) else {
            let message = ServerMessage::StaleDispatch { ticket: header.ticket, about: "log".to_owned() };
            round.outgoing.push((None, link, message));
            return;
        };
        let gap = header.first_seq.saturating_sub(position.last_seq + 1);
        if gap > header.missing {
            // Something before this should come first: say where we are, and it is sent again from there.
            self.acknowledge(link, header.ticket, position.last_seq, round);
            return;
        }
        let news = header.last_seq > position.last_seq;
        if news || (header.complete && !position.complete) {
            let blocks = match (news, header.first_seq <= position.last_seq) {
                (false, _) => Vec::new(),
                (true, false) => blocks.to_vec(),
                (true, true) => match protocol::log::trim_to(blocks, position.last_seq) {
                    Ok(rest) => rest.into_owned(),
                    Err(error) => {
                        tracing::warn!(%attempt, %error, "log blocks that were checked cannot be read");
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
            if let Some(known) = self.links.get_mut(&link) {
                known.logs.insert(attempt, LogPosition { last_seq, complete });
            }
        }
        let stored = self.log_position(link, attempt).unwrap_or_default();
        self.acknowledge(link, header.ticket, stored.last_seq, round);
        self.forget_if_whole(link, attempt, header.ticket, round);
    }

    fn acknowledge(&mut self, link: LinkId, ticket: Ticket, seq: u64, round: &mut Round) {
        round.outgoing.push((None, link, ServerMessage::LogAck { ticket, seq }));
    }

    /// A granted attempt has no lines yet: knowing that saves a look into the store.
    pub(super) fn log_begins(&mut self, worker: WorkerId, attempt: AttemptId) {
        if let Some(known) = self.effect_target(worker).and_then(|link| self.links.get_mut(&link)) {
            known.logs.entry(attempt).or_default();
        }
    }

    /// How far this attempt's log is stored; none for an attempt that was never granted.
    pub(super) fn log_position(&mut self, link: LinkId, attempt: AttemptId) -> Option<LogPosition> {
        if let Some(known) = self.links.get(&link).and_then(|l| l.logs.get(&attempt)) {
            return Some(*known);
        }
        self.place(attempt)?;
        let state = match self.store.reader().log_state(attempt) {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(%attempt, %error, "a log's position could not be read");
                return None;
            }
        };
        let position = LogPosition { last_seq: state.last_seq, complete: state.complete };
        if let Some(known) = self.links.get_mut(&link) {
            known.logs.insert(attempt, position);
        }
        Some(position)
    }
}
