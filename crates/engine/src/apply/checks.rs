//! What happens when a check time comes: the action of the state, if its time is really there; else look again.

use planted::Bug;

use crate::deadline::{self, Action};
use crate::event::Rejection;
use crate::failure::{Failure, FailureKind};
use crate::ids::StepIx;
use crate::job::JobError;
use crate::state::{Delegate, End, SkipCause, State, StateName, StopCause, StopMode, WaitReason};
use crate::table::Verb;

use super::draft::Draft;

impl Draft<'_> {
    pub(super) fn check(&mut self, ix: StepIx) -> Result<(), Rejection> {
        self.known(ix)?;
        self.notice_step(ix);
        let now = self.ctx.now;
        // Rows are the truth: an action is taken only if the row's own data says that its time has come.
        let due = |at: crate::time::Time| at <= now;
        let clocks = self.ctx.clocks();
        match self.step(ix).state.clone() {
            State::Pending => {
                if self.step(ix).unmet == 0 {
                    self.ready.push_back(ix);
                }
            }
            State::Queued(queued) => match queued.offer {
                Some(_) if planted::is(Bug::OfferWithoutDeadline) => {}
                Some(offer) if offer.answer_by <= clocks.heard => return self.offer_unanswered(ix),
                Some(_) | None => {}
            },
            State::Running(live) if planted::is(Bug::OfferTimerOutlivesGrant) => {
                if due(deadline::offer_over(&live, self.ctx.rules)) {
                    return self.enqueue(ix, Verb::Requeue, "the offer was not answered");
                }
            }
            State::Running(live) => {
                if live.timeout_at.is_some_and(|at| due(at + deadline::TIMEOUT_SLACK)) {
                    let reason = "its timeout is over";
                    return self.stop(ix, Verb::Stop, StopCause::StepTimeout, StopMode::Graceful, reason);
                }
            }
            State::Recovering(recovering) if clocks.may_judge(recovering.deadline) => {
                return self.window_over(ix, &recovering);
            }
            State::Cancelling(cancelling) if planted::is(Bug::CancelAwaitsTheLost) && cancelling.cut.is_some() => {}
            State::Cancelling(cancelling) if due(cancelling.deadline) => {
                return self.force_cancel(ix, "no answer to the order to stop");
            }
            State::Held(held) if held.expires_at.is_some_and(due) => return self.hold_expired(ix),
            State::Waiting(waiting) if due(waiting.until) => return self.timer_done(ix, waiting.reason),
            State::Delegated(delegated) if delegated.called_off.is_some() => self.call_child_off(ix, self.is_forced()),
            State::Delegated(delegated) if delegated.to != Delegate::Items => {
                if self.def(ix).timeout.is_some_and(|limit| due(delegated.since + limit)) {
                    return self.call_off(ix, delegated, StopCause::StepTimeout, false);
                }
            }
            State::Recovering(_) | State::Cancelling(_) | State::Delegated(_) | State::Held(_) | State::Waiting(_) => {}
            State::Final(_) => {
                return Err(Rejection::NotNow { state: self.step(ix).state.name(), wanted: "check" });
            }
        }
        // Touching the step is enough: its next check time is worked out when the draft is sealed.
        self.step_mut(ix);
        Ok(())
    }

    /// Whether the job was cancelled by force.
    fn is_forced(&self) -> bool {
        self.header.cancel.as_ref().is_some_and(|order| order.force)
    }

    pub(super) fn check_job(&mut self) {
        self.notice_job();
        let expires = self.job.definition.expires;
        let due = deadline::of_job(&self.header, self.job.created_at, expires, self.ctx.now);
        let outcome = match due.action {
            Action::Expire if due.at <= self.ctx.now => self.expire(),
            Action::CancelForTimeout if due.at <= self.ctx.now => self.cancel_for_timeout(),
            _ => Ok(()),
        };
        outcome.expect("the table lets every open step be failed or cancelled as its state allows");
    }

    /// Nothing has started in time, and nothing will: what waits for a worker fails, and the rest is called off.
    fn expire(&mut self) -> Result<(), Rejection> {
        if self.awaits_slot() {
            let message = "Job failed: it still waited for its concurrency group when it expired";
            return self.end_in_line(&Failure::new(FailureKind::Expired, message));
        }
        let message = "Job failed: it had not started when it expired";
        let failure = Failure::new(FailureKind::Expired, message);
        let all: Vec<(StepIx, StateName)> =
            (0..self.count()).map(StepIx::of).map(|ix| (ix, self.step(ix).state.name())).collect();
        let first = |wanted: &[StateName]| all.iter().find(|(_, name)| wanted.contains(name)).map(|(ix, _)| *ix);
        let step = first(&[StateName::Queued]).or_else(|| first(&[StateName::Waiting, StateName::Held]));
        // Said here, whatever the steps allow: a failure that is allowed is one of a step that ran.
        self.header.error.get_or_insert(JobError { failure: failure.clone(), step });
        // Skipped here and not by their conditions, and before anything ends that they need: `always()` asks for a job that ran.
        for &(ix, _) in all.iter().filter(|(_, name)| *name == StateName::Pending) {
            self.end(ix, Verb::Skip, End::Skipped(SkipCause::Failure), None, "the job expired")?;
        }
        for &(ix, name) in &all {
            match name {
                StateName::Queued => {
                    self.drop_offer(ix);
                    self.end(ix, Verb::Fail, End::Failed, Some(failure.clone()), message)?;
                }
                StateName::Waiting | StateName::Held => {
                    self.end(ix, Verb::Cancel, End::Cancelled, Some(failure.clone()), message)?;
                }
                StateName::Pending
                | StateName::Running
                | StateName::Recovering
                | StateName::Cancelling
                | StateName::Success
                | StateName::Failed
                | StateName::Cancelled
                | StateName::Skipped => {}
            }
        }
        Ok(())
    }

    fn timer_done(&mut self, ix: StepIx, reason: WaitReason) -> Result<(), Rejection> {
        match reason {
            WaitReason::Retry => self.hand_out(ix, Verb::TimerDone, "the delay before the retry is over"),
            WaitReason::Protection if self.def(ix).protection.reviewers > 0 && !planted::is(Bug::HoldForgotten) => {
                self.hold(ix, Verb::TimerDone, "the wait is over; its environment asks for approval")
            }
            WaitReason::Protection => self.begin(ix, Verb::TimerDone, "the wait is over"),
        }
    }

    pub(super) fn unmatched(&mut self, ix: StepIx, missing: &str) -> Result<(), Rejection> {
        self.known(ix)?;
        let queued = self.queued(ix, "fail as unmatched")?;
        let patience = deadline::patience(self.def(ix), self.ctx.rules);
        let over = |patience| self.ctx.clocks().may_judge(queued.heard_since + patience);
        if queued.offer.is_some() || !patience.is_some_and(over) {
            return Err(Rejection::NotNow { state: StateName::Queued, wanted: "fail as unmatched" });
        }
        let message = format!("No active worker with required tags to run this step: {missing}");
        let failure = Failure::new(FailureKind::Unmatched, message.clone());
        self.end(ix, Verb::Fail, End::Failed, Some(failure), &message)
    }
}
