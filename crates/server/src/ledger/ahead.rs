//! What a round's commands speak of, read before they are decided: one look for all of them, where each look is a way to another
//! machine. Whatever is not found here is looked up when it is needed.

use engine::{AttemptId, JobId, StepIx};
use planted::Bug;
use protocol::link::WorkerMessage;
use store::read::LogState;
use store::rows::IdempotencyRow;
use store::{Found, Record, Store, Wanted};
use uuid::Uuid;

use super::amnesia::RECORD_KEYS;
use super::command::{Command, IdempotencyKey, LinkEvent, LogFrame};
use super::core::Core;

/// Rows as they were when the round began. Nobody relies on them for longer: what is written on them is compared again.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    wanted: Wanted,
    found: Found,
}

impl Ahead {
    /// The job of this key, if that was asked for; the inner one, if there is any.
    pub(super) fn key(&self, key: &IdempotencyKey) -> Option<Option<IdempotencyRow>> {
        let name: (Uuid, String) = (key.token, key.key.clone());
        self.wanted.keys.contains(&name).then(|| self.found.keys.get(&name).cloned())
    }

    pub(super) fn place(&self, attempt: AttemptId) -> Option<Option<(JobId, StepIx)>> {
        self.wanted.attempts.contains(&attempt).then(|| self.found.places.get(&attempt).copied())
    }

    /// What is remembered is held against it once.
    pub(super) fn take_record(&mut self) -> Option<Record> {
        self.found.record.take()
    }

    pub(super) fn log(&self, attempt: AttemptId) -> Option<LogState> {
        self.found.logs.get(&attempt).copied()
    }
}

impl<S: Store> Core<S> {
    /// Only where others write as well: the rows of a database of our own are as near as memory.
    pub(super) fn look_ahead(&mut self, commands: &[Command]) {
        self.ahead = Ahead::default();
        if !self.siblings.is_shared() {
            return;
        }
        let mut wanted = Wanted::default();
        for command in commands {
            self.want(command, &mut wanted);
        }
        if wanted.is_empty() {
            return;
        }
        match self.store.look_ahead(&wanted) {
            Ok(found) => self.ahead = Ahead { wanted, found },
            // Each is looked up by itself, and says what follows if that cannot be done either.
            Err(error) => tracing::debug!(%error, "what a round is about could not be read beforehand"),
        }
    }

    fn want(&self, command: &Command, wanted: &mut Wanted) {
        match command {
            Command::Submit(submit, _) => {
                let key = submit.idempotency.as_ref().filter(|_| !planted::is(Bug::SubmittedTwice));
                wanted.keys.extend(key.map(|key| (key.token, key.key.clone())));
            }
            Command::Link(LinkEvent::Log(LogFrame { link, header, .. })) if header.complete => {
                let attempt = AttemptId(header.ticket.attempt);
                let stored = self.links.get(link).and_then(|known| known.logs.get(&attempt));
                // What comes as a whole has nothing on record.
                if stored.is_none_or(|stored| stored.last_seq > 0) || header.first_seq > 1 {
                    wanted.attempts.insert(attempt);
                }
            }
            Command::Link(LinkEvent::Messages { link, messages }) => {
                let Some(known) = self.links.get(link) else { return };
                if messages.iter().any(|message| matches!(message, WorkerMessage::Accept { .. })) {
                    wanted.record = Some(&RECORD_KEYS);
                }
                let ends = messages.iter().filter_map(|message| match message {
                    WorkerMessage::Ended { ticket, .. } => Some(AttemptId(ticket.attempt)),
                    _ => None,
                });
                wanted.attempts.extend(ends.filter(|attempt| known.logs.get(attempt).is_some_and(|log| log.complete)));
            }
            _ => {}
        }
    }
}
