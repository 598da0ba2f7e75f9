//! `bowline recover`: an operator looks for what has been silent for long, and gives it up, whatever the automatic
//! actions do.
//!
//! The rows say what may be silent: they lag behind, so what the ledger itself has heard since counts as well. The engine
//! decides on each as on any other silence, only that a person ordered it.

use std::time::Duration;

use engine::event::Ticket;
use engine::{Clocks, Event, Time};
use store::Store;
use store::read::StaleAttempt;

use super::command::EventError;
use super::core::Core;
use super::round::Round;

/// Attempts that one order lists or gives up; the longest silent go first, and the order can be repeated.
const RECOVER_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoverOrder {
    /// None: only to be listed.
    pub what: Option<Forsake>,
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
    /// Returns what was given up, or what there is to give up.
    pub(super) fn recover(&mut self, order: &RecoverOrder, round: &mut Round) -> Result<Vec<StaleAttempt>, EventError> {
        let mut silent = self.silent(round.now - order.older_than, &round.clocks)?;
        let Some(what) = order.what else { return Ok(silent) };
        silent.retain(|stale| stale.state == what.state() && self.forsake(stale, order, round));
        tracing::warn!(by = order.by, ?what, count = silent.len(), "an operator gave up what was silent");
        Ok(silent)
    }

    /// What gave its last sign of life before this, the longest silent first.
    fn silent(&self, before: Time, clocks: &Clocks) -> Result<Vec<StaleAttempt>, EventError> {
        let rows = self.store.reader().stale(before, RECOVER_MAX);
        let mut silent = rows?;
        for stale in &mut silent {
            stale.last_sign = self.last_heard(stale, clocks).into_iter().fold(stale.last_sign, Time::max);
        }
        silent.retain(|stale| stale.last_sign < before);
        silent.sort_by_key(|stale| stale.last_sign);
        Ok(silent)
    }

    /// The last sign of life that this process knows of: the runner's, or the worker's for a runner that was never heard.
    fn last_heard(&self, stale: &StaleAttempt, clocks: &Clocks) -> Option<Time> {
        if let Some(heard) = self.beats.last_of_runner(stale.attempt) {
            return Some(clocks.wall(heard));
        }
        // Right after deaf time the runners had no chance yet to be heard again; their worker speaks for them.
        let speaks_for_it = stale.runner_at.is_none() || clocks.is_quiet_stretch();
        self.roster.get(stale.worker).filter(|_| speaks_for_it)?.last_seen
    }

    fn forsake(&mut self, stale: &StaleAttempt, order: &RecoverOrder, round: &mut Round) -> bool {
        let Ok(cached) = self.cache.load(stale.job, &mut self.store, &self.definitions) else { return false };
        let ticket = cached.job.state(stale.ix).ticket().filter(|(attempt, _)| *attempt == stale.attempt);
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
