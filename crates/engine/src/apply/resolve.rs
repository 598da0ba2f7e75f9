//! A person's word on a step whose worker is cut off, or of which the record was put back to an earlier state: what the detectors
//! cannot know, someone who looked can.

use planted::Bug;
use serde_json::Value;

use crate::attempt::Report;
use crate::event::{About, AttemptNews, Rejection, Stale};
use crate::failure::{Failure, FailureKind};
use crate::ids::{AttemptId, StepIx};
use crate::state::{End, Ground, Live, State, StateName};
use crate::table::Verb;

use super::draft::Draft;

/// How a person settles a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    Succeeded {
        output: Value,
    },
    Failed {
        reason: String,
    },
    /// Run it once more; needs a ground, or a person's word that nothing of it runs any more.
    Rerun,
    /// Take the end that an attempt reported after it was given up.
    AcceptLate {
        report: Report,
    },
}

/// Who settles a step, how, and what they had seen when they did.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolve {
    pub step: StepIx,
    /// The attempt that they looked at; for a late end, the one that reported it.
    pub attempt: AttemptId,
    pub how: Resolution,
    /// They say that nothing of the current attempt runs any more.
    pub confirm_dead: bool,
    pub by: String,
}

impl Resolution {
    pub fn word(&self) -> &'static str {
        match self {
            Resolution::Succeeded { .. } => "succeeded",
            Resolution::Failed { .. } => "failed",
            Resolution::Rerun => "rerun",
            Resolution::AcceptLate { .. } => "accept_late",
        }
    }
}

impl Draft<'_> {
    pub(super) fn resolve(&mut self, order: &Resolve) -> Result<(), Rejection> {
        let ix = order.step;
        self.known(ix)?;
        let state = &self.step(ix).state;
        let live = match state {
            State::Recovering(recovering) => Some(recovering.live),
            State::Held(held) if self.is_in_doubt(ix) => held.live,
            other => return Err(Rejection::NotNow { state: other.name(), wanted: "resolve" }),
        };
        let about_live = !matches!(order.how, Resolution::AcceptLate { .. });
        if about_live && live.is_some_and(|live| live.attempt != order.attempt) {
            return Err(Rejection::Stale(Stale::Attempt));
        }
        if state.name() == StateName::Held {
            return self.resolve_held(order, live);
        }
        let ground = if order.confirm_dead { Some(Ground::PersonsWord) } else { self.ground_now(ix) };
        if order.how == Resolution::Rerun && ground.is_none() {
            return Err(Rejection::MayStillRun { steps: vec![ix] });
        }
        self.close_for(order, live);
        let reason = format!("resolved as {} by {}", order.how.word(), order.by);
        match &order.how {
            Resolution::Rerun => {
                // A person's repeat is neither an execution of the policy nor a loss.
                self.step_mut(ix).executions -= 1;
                let ground = ground.map_or("none", Ground::word);
                self.enqueue(ix, Verb::Requeue, &format!("{reason} (ground: {ground})"))
            }
            how => self.settle_as(ix, how, &order.by, (Verb::Succeed, Verb::Fail), &reason),
        }
    }

    /// Whoever wants it to run says no more than that: one who approves it among others, if its rules want them.
    fn resolve_held(&mut self, order: &Resolve, live: Option<Live>) -> Result<(), Rejection> {
        let ix = order.step;
        let reason = format!("resolved as {} by {}", order.how.word(), order.by);
        if order.how != Resolution::Rerun {
            self.close_for(order, live);
            return self.settle_as(ix, &order.how, &order.by, (Verb::Succeed, Verb::Fail), &reason);
        }
        if live.is_some() && !order.confirm_dead {
            return Err(Rejection::MayStillRun { steps: vec![ix] });
        }
        self.close_for(order, live);
        if let State::Held(held) = &mut self.step_mut(ix).state
            && held.live.take().is_some()
        {
            self.step_mut(ix).executions -= 1;
        }
        self.approve(ix, &order.by, "resolved as rerun")
    }

    /// The ground that there is without anyone's word.
    fn ground_now(&self, ix: StepIx) -> Option<Ground> {
        if planted::is(Bug::RerunWithoutGround) {
            return Some(Ground::MayRepeat);
        }
        self.ground_by_now(ix)
    }

    /// Closes the attempt that is cut off: its step is settled without it.
    fn close_for(&mut self, order: &Resolve, live: Option<Live>) {
        let (ix, Some(live)) = (order.step, live) else { return };
        let message = format!("Given up: its step was resolved as {} by {}", order.how.word(), order.by);
        self.attempt_lost(ix, Some(Failure::new(FailureKind::Resolved, message)), order.confirm_dead);
        if order.confirm_dead {
            let reason = format!("{} is over: {} says so", self.whereabouts(&live), order.by);
            let worker = live.worker;
            self.note(About::Attempt { step: ix, worker, what: AttemptNews::Confirmed }, &reason);
        }
    }

    /// Ends a step as a person says. The verbs are those for success and failure from where it is.
    pub(super) fn settle_as(
        &mut self,
        ix: StepIx,
        how: &Resolution,
        by: &str,
        (succeed, fail): (Verb, Verb),
        reason: &str,
    ) -> Result<(), Rejection> {
        let (output, failure) = match how {
            Resolution::Succeeded { output } => (output, None),
            Resolution::Failed { reason } => {
                let name = self.name(ix);
                let message = format!("Step `{name}` was marked as failed by {by}: {reason}");
                (&Value::Null, Some(Failure::new(FailureKind::Resolved, message)))
            }
            Resolution::AcceptLate { report } => (&report.output, self.failure_of(ix, report)),
            Resolution::Rerun => return Ok(()),
        };
        if let Resolution::AcceptLate { report } = how {
            self.step_mut(ix).artifacts = report.stored();
        }
        match failure {
            None => {
                self.step_mut(ix).output = output.clone();
                self.end(ix, succeed, End::Success, None, reason)
            }
            Some(failure) => self.end(ix, fail, End::Failed, Some(failure), reason),
        }
    }
}
