//! `bowline recover`: an operator gives up what has been silent for long, whatever the automatic actions do.
//!
//! The rows say what is silent; the engine decides on each as on any other silence, only that a person ordered it.

use std::time::Duration;

use engine::Event;
use engine::event::Ticket;
use store::Store;
use store::read::StaleAttempt;

use super::command::EventError;
use super::core::Core;
use super::round::Round;

/// Attempts that one order gives up; the longest silent go first, and the order can be repeated.
pub const RECOVER_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoverOrder {
    pub what: Forsake,
    /// Silent for longer than this.
    pub older_than: Duration,
    pub by: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forsake {
    /// Offers whose worker is silent: they go elsewhere.
    Claimed,
    /// Attempts whose runner is silent: told to stop, then policy and effects decide.
    Running,
}

impl Forsake {
    /// The state of the steps that it is about. What is cut off has its window, and what is told to stop its deadline.
    fn state(self) -> &'static str {
        match self {
            Forsake::Claimed => "queued",
            Forsake::Running => "running",
        }
    }
}

impl<S: Store> Core<S> {
    /// Returns what was given up.
    pub(super) fn recover(&mut self, order: &RecoverOrder, round: &mut Round) -> Result<Vec<StaleAttempt>, EventError> {
        let before = round.now - order.older_than;
        let silent = self.store.reader().stale(before, RECOVER_MAX);
        let mut silent = silent.map_err(|error| EventError::Internal(error.to_string()))?;
        silent.retain(|stale| stale.state == order.what.state() && self.forsake(stale, order, round));
        tracing::warn!(by = order.by, what = ?order.what, count = silent.len(), "an operator gave up what was silent");
        Ok(silent)
    }

    fn forsake(&mut self, stale: &StaleAttempt, order: &RecoverOrder, round: &mut Round) -> bool {
        let Ok(cached) = self.cache.load(stale.job, &mut self.store, &self.definitions) else { return false };
        let ticket = cached.job.step(stale.ix).state.ticket().filter(|(attempt, _)| *attempt == stale.attempt);
        let Some((attempt, fence)) = ticket else { return false };
        let silent = round.now.since(stale.last_sign);
        let ticket = Ticket { step: stale.ix, attempt, fence };
        let event = Event::FellSilent { ticket, silent, by: Some(order.by.clone()) };
        match self.apply(stale.job, &event, round) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(job = %stale.job, step = stale.step, %error, "a silent attempt could not be given up");
                false
            }
        }
    }
}
