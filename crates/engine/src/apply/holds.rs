//! Steps that wait for a person.

use crate::definition::Work;
use crate::event::Rejection;
use crate::failure::{Failure, FailureKind};
use crate::ids::StepIx;
use crate::state::{End, Held, State};
use crate::table::Verb;

use super::draft::Draft;

impl Draft<'_> {
    pub(super) fn approve(&mut self, ix: StepIx, by: &str) -> Result<(), Rejection> {
        let held = self.held(ix, "approve")?;
        if held.missing > 1 {
            self.step_mut(ix).state = State::Held(Held { missing: held.missing - 1, ..held });
            return Ok(());
        }
        let reason = format!("approved by {by}");
        match self.def(ix).work {
            Work::Approve => self.end(ix, Verb::Approve, End::Success, None, &reason),
            Work::Run(_) | Work::Child(_) => self.begin(ix, Verb::Approve, &reason),
        }
    }

    pub(super) fn reject(&mut self, ix: StepIx, by: &str, why: &str) -> Result<(), Rejection> {
        self.held(ix, "reject")?;
        let message = format!("Rejected by {by}: {why}");
        let failure = Failure::new(FailureKind::Rejected, message.clone());
        self.end(ix, Verb::Reject, End::Cancelled, Some(failure), &message)
    }

    pub(super) fn hold_expired(&mut self, ix: StepIx) -> Result<(), Rejection> {
        let message = "Nobody approved it in time";
        let failure = Failure::new(FailureKind::HoldExpired, message);
        self.end(ix, Verb::Expire, End::Cancelled, Some(failure), message)
    }

    fn held(&self, ix: StepIx, wanted: &'static str) -> Result<Held, Rejection> {
        self.known(ix)?;
        match self.step(ix).state {
            State::Held(held) => Ok(held),
            ref other => Err(Rejection::NotNow { state: other.name(), wanted }),
        }
    }
}
