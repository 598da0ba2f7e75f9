//! The database was put back to an earlier state: a backup, or a replica that lacks commits. Whatever happened since is not on record, so
//! that a step which is to run by the record may have run already.
//!
//! Steps that do nothing to the world may. All others are put before a person, now or when their turn comes; workers may know better
//! meanwhile, and their word counts.

use crate::attempt::{Attempt, AttemptState};
use crate::definition::{Effects, Work};
use crate::event::{About, Rejection};
use crate::failure::Failure;
use crate::ids::StepIx;
use crate::state::{Held, Live, Recovering, State, WaitReason, Waiting};
use crate::table::Verb;
use crate::time::Time;

use super::draft::Draft;

/// Why a step is held that was about to run, by a record that is not the last one.
const RESTORED: &str = "the database was restored, and it may have run in the time that is lost";

impl Draft<'_> {
    pub(super) fn restored(&mut self, at: Time) -> Result<(), Rejection> {
        if self.header.restored_at.is_some_and(|known| known >= at) {
            return Err(Rejection::RestoredBefore);
        }
        self.is_told(at);
        (0..self.count()).map(StepIx::of).try_for_each(|ix| self.doubt(ix))
    }

    /// Of a job of which nothing has happened yet: all its steps are asked about when their turn comes.
    pub(super) fn born_in_doubt(&mut self, at: Time) {
        self.is_told(at);
        for ix in (0..self.count()).map(StepIx::of) {
            if !self.may_be_repeated_unseen(ix) {
                self.step_mut(ix).in_doubt = true;
            }
        }
    }

    fn is_told(&mut self, at: Time) {
        self.header.restored_at = Some(at);
        self.note(
            About::Restored,
            "the database was restored: what may have run in the time that is lost waits for a person",
        );
    }

    fn doubt(&mut self, ix: StepIx) -> Result<(), Rejection> {
        let state = self.step(ix).state.clone();
        if state.is_final() || self.may_be_repeated_unseen(ix) {
            return Ok(());
        }
        self.step_mut(ix).in_doubt = true;
        match state {
            State::Queued(_) => {
                self.drop_offer(ix);
                self.hold_in_doubt(ix, "")
            }
            State::Waiting(Waiting { reason: WaitReason::Retry, .. }) => self.hold_in_doubt(ix, ""),
            State::Running(live) | State::Recovering(Recovering { live, .. }) => {
                self.record(Attempt { state: AttemptState::Recovering, ..Attempt::started(ix, live) });
                self.hold_with(ix, Some(live), RESTORED)
            }
            // Whoever approved it did not know.
            State::Held(held) => self.hold_with(ix, held.live, RESTORED),
            // Their turn comes, or that of what does it: it is asked then.
            State::Pending | State::Delegated(_) | State::Waiting(_) => Ok(()),
            // It is to end, and nothing follows on that without a person.
            State::Cancelling(_) => Ok(()),
            State::Final(_) => Ok(()),
        }
    }

    /// It does nothing to the world, or only asks. The steps of a child job have effects of their own; but which of them there would be is lost.
    fn may_be_repeated_unseen(&self, ix: StepIx) -> bool {
        let def = self.def(ix);
        match def.work {
            Work::Approve => true,
            Work::Run(_) => def.effects == Effects::None,
            Work::Child(_) => false,
        }
    }

    /// Whether nothing of it may begin before a person says so.
    pub(super) fn is_in_doubt(&self, ix: StepIx) -> bool {
        self.step(ix).in_doubt
    }

    /// Instead of another attempt, or its first. `after`: what became of the one before.
    pub(super) fn hold_in_doubt(&mut self, ix: StepIx, after: &str) -> Result<(), Rejection> {
        if after.is_empty() {
            return self.hold_with(ix, None, RESTORED);
        }
        self.hold_with(ix, None, &format!("{after}; {RESTORED}"))
    }

    /// The same, after a failure.
    pub(super) fn hold_after(&mut self, ix: StepIx, failure: Failure) -> Result<(), Rejection> {
        self.hold_in_doubt(ix, &failure.message)?;
        self.step_mut(ix).error = Some(failure);
        Ok(())
    }

    fn hold_with(&mut self, ix: StepIx, live: Option<Live>, reason: &str) -> Result<(), Rejection> {
        let held = Held { live, ..self.new_hold(ix) };
        self.shift(ix, Verb::Hold, State::Held(held), reason)
    }
}
