//! Steps that wait for a person.

use planted::Bug;

use crate::definition::Work;
use crate::event::{About, Rejection};
use crate::failure::{Failure, FailureKind};
use crate::ids::StepIx;
use crate::state::{Approval, End, Held, State};
use crate::table::Verb;

use super::draft::Draft;

impl Draft<'_> {
    /// A person's yes: the last one of those that are wanted moves the step on. Nobody counts twice.
    pub(super) fn approve(&mut self, ix: StepIx, by: &str, comment: &str) -> Result<(), Rejection> {
        let mut held = self.held(ix, "approve")?;
        if held.live.is_some() {
            return Err(Rejection::MayStillRun { steps: vec![ix] });
        }
        let counted = held.approvals.iter().any(|approval| approval.by == by);
        if counted && !planted::is(Bug::ReviewerCountsTwice) {
            return Err(Rejection::ApprovedBefore { by: by.to_owned(), missing: held.missing() });
        }
        let own = self.def(ix).protection.four_eyes && *self.job.submitted_by == *by;
        if own && !planted::is(Bug::SubmitterReviews) {
            return Err(Rejection::OwnJob { by: by.to_owned() });
        }
        let reason = said("approved", by, comment);
        held.approvals.push(Approval { by: by.to_owned(), at: self.ctx.now, comment: comment.to_owned() });
        if held.missing() > 0 {
            let reason = format!("{reason} ({} of {})", held.approvals.len(), held.wanted);
            self.step_mut(ix).state = State::Held(held);
            self.note(About::Approved { step: ix }, &reason);
            return Ok(());
        }
        self.step_mut(ix).in_doubt = false;
        match self.def(ix).work {
            Work::Approve => self.end(ix, Verb::Approve, End::Success, None, &reason),
            Work::Run(_) | Work::Child(_) => self.begin(ix, Verb::Approve, &reason),
        }
    }

    pub(super) fn reject(&mut self, ix: StepIx, by: &str, why: &str) -> Result<(), Rejection> {
        self.held(ix, "reject")?;
        let message = said("Rejected", by, why);
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
        match &self.step(ix).state {
            State::Held(held) => Ok(held.clone()),
            other => Err(Rejection::NotNow { state: other.name(), wanted }),
        }
    }
}

/// `approved by ann: looks good`.
fn said(what: &str, by: &str, comment: &str) -> String {
    if comment.is_empty() { format!("{what} by {by}") } else { format!("{what} by {by}: {comment}") }
}
