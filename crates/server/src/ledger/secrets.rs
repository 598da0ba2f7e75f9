//! What steps are given besides: looked up when a worker asks for leave to start, and handed over right before `go`. The
//! values pass through here and stay nowhere: neither in a round, nor in a row.

use std::sync::Arc;

use engine::AttemptId;
use engine::definition::Definition;
use protocol::attempt::Ticket;
use protocol::link::ServerMessage;
use store::{Store, StoreError};

use crate::access::SecretError;
use crate::dispatch::LinkId;
use crate::tasks::{self, Extent};

use super::core::Core;

/// The database is away, or a file cannot be read now: nobody can say.
pub(super) struct Unknown;

impl<S: Store> Core<S> {
    /// Why a step that is offered must not be started, if so. One that was granted before had all of them then.
    pub(super) fn missing_secret(&mut self, ticket: Ticket) -> Result<Option<String>, Unknown> {
        let (names, offered) = self.secrets_of(ticket);
        if names.is_empty() || !offered {
            return Ok(None);
        }
        match self.secrets.of_step(&names) {
            Ok(_) => Ok(None),
            Err(SecretError::Store { source: source @ StoreError::Unavailable { .. }, .. }) => {
                self.cache.missed(&source);
                Err(Unknown)
            }
            // No file left to open, a disk that hesitates: the next look may find it.
            Err(error) if error.may_pass() => {
                tracing::warn!(attempt = %ticket.attempt, %error, "a step's secrets cannot be read now");
                Err(Unknown)
            }
            Err(error) => Ok(Some(format!("{} (server at {})", error.in_full(), self.config.address))),
        }
    }

    /// Why a job that nobody submits by hand could only fail, if so: a step that it certainly comes to lacks a secret.
    pub(super) fn lacking_secrets(&self, definition: &Definition) -> Option<String> {
        if !tasks::names_secrets(definition) {
            return None;
        }
        tasks::in_words(&tasks::lacks(definition, Extent::Sure, &*self.secrets, &|_| Ok(())))
    }

    /// As they are now. If one cannot be had any more the runner refuses to go: nothing has started, and the step is offered
    /// anew, or fails for that.
    pub(super) fn hand_over_secrets(&mut self, link: LinkId, ticket: Ticket) {
        let (names, _) = self.secrets_of(ticket);
        if names.is_empty() {
            return;
        }
        match self.secrets.of_step(&names) {
            Ok(values) => {
                if let Some(known) = self.links.get(&link)
                    && !known.sender.send(ServerMessage::Secrets { ticket, values })
                {
                    tracing::warn!(worker = %known.worker, "the worker does not read its messages; its link is closed");
                    known.sender.close();
                }
            }
            Err(error) => {
                tracing::warn!(attempt = %ticket.attempt, %error, "a step that was to start is not given its secrets");
            }
        }
    }

    /// Their names, and whether the attempt is only offered.
    fn secrets_of(&mut self, ticket: Ticket) -> (Vec<Arc<str>>, bool) {
        let attempt = AttemptId(ticket.attempt);
        let none = (Vec::new(), false);
        let Some(place) = self.place(attempt) else { return none };
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { return none };
        if place.step.get() >= cached.job.steps.len() {
            return none;
        }
        let offered = cached.job.state(place.step).offer().is_some_and(|offer| offer.attempt == attempt);
        (cached.job.def(place.step).secrets.clone(), offered)
    }
}
