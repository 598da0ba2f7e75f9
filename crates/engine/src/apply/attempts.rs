//! The life of one attempt: offered, refused or withdrawn, granted, ended.

use std::borrow::Cow;
use std::time::Duration;

use planted::Bug;

use crate::attempt::{Artifacts, Attempt, AttemptState, Outcome, Report, Stopped};
use crate::definition::Work;
use crate::event::{Effect, OfferNews, Rejection, Stale, Ticket};
use crate::failure::{Failure, FailureKind};
use crate::ids::{Epoch, StepIx, WorkerId};
use crate::state::{End, Ground, Live, Offer, Queued, State, StateName, StopCause, WaitReason, Waiting};
use crate::table::Verb;

use super::draft::Draft;

/// The wait before a step is offered again, by the number of unanswered offers; the last one repeats.
const REOFFER_DELAYS: [Duration; 5] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// Of an attempt whose successor was started in the time that the database lost.
const SUPERSEDED: &str = "A later attempt has started: what became of this one was lost with commits of the database";

impl Draft<'_> {
    pub(super) fn offer(&mut self, ticket: Ticket, worker: WorkerId, epoch: Epoch) -> Result<(), Rejection> {
        let now = self.ctx.now;
        let queued = self.queued(ticket.step, "offer")?;
        if queued.offer.is_some() || queued.not_before.is_some_and(|at| at > now) {
            return Err(Rejection::NotNow { state: StateName::Queued, wanted: "offer" });
        }
        let answer_by = self.ctx.heard + self.ctx.rules.dispatch_ack;
        let offer = Offer { attempt: ticket.attempt, fence: ticket.fence, worker, epoch, at: now, answer_by };
        self.set_offer(ticket.step, Some(offer), None);
        self.note_offer(ticket.step, worker, OfferNews::Made, "");
        self.effect(Effect::Offer { step: ticket.step, offer });
        Ok(())
    }

    /// A refusal costs the step nothing: it goes to someone else.
    pub(super) fn refused(&mut self, ticket: Ticket, reason: &str) -> Result<(), Rejection> {
        let offer = self.offered(ticket.step, "refuse")?;
        if planted::is(Bug::RefusalsCount) {
            return self.offer_unanswered(ticket.step);
        }
        self.set_offer(ticket.step, None, None);
        self.step_mut(ticket.step).avoid = Some(offer.worker);
        self.note_offer(ticket.step, offer.worker, OfferNews::Refused, reason);
        Ok(())
    }

    /// Nothing has started, so the offer can go elsewhere at once; the lost link is not the step's fault.
    pub(super) fn offer_lost(&mut self, ticket: Ticket, epoch: Epoch) -> Result<(), Rejection> {
        let offer = self.offered(ticket.step, "withdraw")?;
        if offer.epoch != epoch {
            return Err(Rejection::Stale(Stale::Epoch));
        }
        self.set_offer(ticket.step, None, None);
        self.note_offer(
            ticket.step,
            offer.worker,
            OfferNews::Lost,
            &format!("the worker's link is gone (link {})", epoch.0),
        );
        Ok(())
    }

    /// The offer's time is over. Only these count towards `max_dispatch_attempts`.
    pub(super) fn offer_unanswered(&mut self, ix: StepIx) -> Result<(), Rejection> {
        let offer = self.offered(ix, "withdraw")?;
        let (now, most) = (self.ctx.now, self.ctx.rules.max_dispatch_attempts);
        let step = self.step_mut(ix);
        step.unanswered_offers += 1;
        step.avoid = Some(offer.worker);
        let count = step.unanswered_offers;
        self.note_offer(ix, offer.worker, OfferNews::Unanswered, "the worker did not answer in time");
        self.drop_offer(ix);
        if count >= most {
            let message = format!("Job failed: re-dispatch attempts exhausted after {count} attempts");
            let failure = Failure::new(FailureKind::DispatchExhausted, message.clone());
            return self.end(ix, Verb::Fail, End::Failed, Some(failure), &message);
        }
        let delay = REOFFER_DELAYS[(count as usize - 1).min(REOFFER_DELAYS.len() - 1)];
        self.set_offer(ix, None, Some(now + delay));
        Ok(())
    }

    /// The grant: from here on the attempt may have run.
    pub(super) fn accepted(&mut self, ticket: Ticket, epoch: Epoch) -> Result<(), Rejection> {
        let ix = ticket.step;
        if let Some(live) = self.step(ix).state.live().copied() {
            return self.accepted_again(ticket, live, epoch);
        }
        let offer = self.offered(ix, "start")?;
        if offer.epoch != epoch {
            return Err(Rejection::Stale(Stale::Epoch));
        }
        let live = self.next_attempt(ticket, offer.worker, epoch);
        self.effect(Effect::Go { ticket, worker: live.worker });
        self.shift(ix, Verb::Start, State::Running(live), "granted to the worker")
    }

    /// Instead of the grant. Nothing has started, and to offer it again would only repeat the fault.
    pub(super) fn secret_missing(&mut self, ticket: Ticket, epoch: Epoch, why: &str) -> Result<(), Rejection> {
        let offer = self.offered(ticket.step, "fail for want of a secret")?;
        if offer.epoch != epoch {
            return Err(Rejection::Stale(Stale::Epoch));
        }
        self.drop_offer(ticket.step);
        let message = format!("Job failed: {why}");
        let failure = Failure::new(FailureKind::Secret, message.clone());
        self.end(ticket.step, Verb::Fail, End::Failed, Some(failure), &message)
    }

    /// The rows say that the step waits, and its worker knows better. It runs, so nothing else may.
    pub(super) fn adopted(&mut self, ticket: Ticket, worker: WorkerId, epoch: Epoch) -> Result<(), Rejection> {
        let ix = ticket.step;
        if !matches!(self.def(ix).work, Work::Run(_)) {
            return Err(Rejection::NotNow { state: self.step(ix).state.name(), wanted: "adopt" });
        }
        self.enter_group_late();
        match &self.step(ix).state {
            State::Queued(_) => {}
            // Its needs were met once: the word of that was lost as well.
            State::Pending => self.enqueue(ix, Verb::Enqueue, "its worker has started it already")?,
            State::Waiting(_) => self.enqueue(ix, Verb::TimerDone, "its worker has started it already")?,
            State::Held(held) if held.live.is_some() => self.superseded(ticket, Verb::Approve)?,
            State::Held(_) => self.enqueue(ix, Verb::Approve, "its worker has started it already")?,
            State::Running(_) | State::Recovering(_) => self.superseded(ticket, Verb::Requeue)?,
            // It is told to end for a reason that another one may follow.
            State::Cancelling(cancelling) if !cancelling.cause.is_final() => self.superseded(ticket, Verb::Complete)?,
            state => return Err(Rejection::NotNow { state: state.name(), wanted: "adopt" }),
        }
        self.drop_offer(ix);
        let live = self.next_attempt(ticket, worker, epoch);
        let reason = format!("{} has it, though that is not on record: commits were lost", self.worker(worker));
        self.shift(ix, Verb::Start, State::Running(live), &reason)
    }

    /// A later attempt had leave to start, so the current one was given up with good reason, and the word of that was lost.
    /// It may have ended in any way; or, where it may be repeated beside a stray copy, still run.
    fn superseded(&mut self, by: Ticket, verb: Verb) -> Result<(), Rejection> {
        let ix = by.step;
        let live = self.live(ix, "adopt")?;
        if live.fence >= by.fence {
            return Err(Rejection::NotNow { state: self.step(ix).state.name(), wanted: "adopt" });
        }
        let failure = self.told(ix, FailureKind::WorkerLost, SUPERSEDED, &live);
        self.attempt_lost(ix, Some(failure), false);
        if self.def(ix).effects.may_repeat() && !self.def(ix).retry.on.worker_lost {
            // A loss like any other: it spends no execution of the policy.
            let step = self.step_mut(ix);
            step.losses += 1;
            step.executions -= 1;
        }
        self.enqueue(ix, verb, "a later attempt has started: what became of this one is not on record")
    }

    /// Counts and records an attempt that has leave to start.
    fn next_attempt(&mut self, ticket: Ticket, worker: WorkerId, epoch: Epoch) -> Live {
        let (ix, timeout) = (ticket.step, self.def(ticket.step).timeout);
        let step = self.step_mut(ix);
        step.attempts += 1;
        step.executions += 1;
        step.unanswered_offers = 0;
        step.avoid = None;
        // What was wrong with the attempt before stands in that attempt's row.
        step.error = None;
        if planted::is(Bug::NoticeWithEachAttempt) {
            step.late_at = None;
        }
        step.artifacts = None;
        let live = Live {
            attempt: ticket.attempt,
            number: step.attempts,
            fence: ticket.fence,
            worker,
            epoch,
            started_at: self.ctx.now,
            timeout_at: timeout.map(|d| self.ctx.now + d),
        };
        self.record(Attempt::started(ix, live));
        live
    }

    /// The question is idempotent: the answer may have been lost, or come too late to be used.
    fn accepted_again(&mut self, ticket: Ticket, live: Live, epoch: Epoch) -> Result<(), Rejection> {
        if live.epoch != epoch {
            return Err(Rejection::Stale(Stale::Epoch));
        }
        match &self.step(ticket.step).state {
            State::Running(_) => {
                self.effect(Effect::Go { ticket, worker: live.worker });
                Ok(())
            }
            other => Err(Rejection::NotNow { state: other.name(), wanted: "start" }),
        }
    }

    /// The attempt's own word on its end. It is certain, so it is also the ground for a successor.
    pub(super) fn ended(&mut self, ticket: Ticket, report: &Report) -> Result<(), Rejection> {
        let ix = ticket.step;
        let Some(live) = self.step(ix).state.live().copied() else {
            if planted::is(Bug::VerdictTurns) && self.failure_of(ix, report).is_none() {
                return self.end(ix, Verb::Succeed, End::Success, None, "it ended well");
            }
            return Err(Rejection::Stale(Stale::Attempt));
        };
        let report = &self.as_meant(live, report);
        let failure = self.failure_of(ix, report);
        self.record_end(ix, live, report, failure.clone());
        self.step_mut(ix).artifacts = report.stored();
        self.effect(Effect::Forget { ticket, worker: live.worker });
        if let State::Cancelling(cancelling) = self.step(ix).state {
            if let StopCause::RunnerStale { silent_ms } = cancelling.cause {
                return self.ended_after_silence(ix, silent_ms, report, failure);
            }
            if cancelling.cause == StopCause::StepTimeout
                && let Some(outcome) = self.ended_in_time(ix, report, &failure)
            {
                return outcome;
            }
            let verb = match (report.stopped, &failure) {
                (Some(_), _) => Verb::Complete,
                // The race: it ended by itself before the order reached it.
                (None, None) => Verb::Succeed,
                (None, Some(_)) => Verb::Fail,
            };
            let (mut failure, reason) = self.stop_failure(ix, cancelling.cause);
            add_unstored(&mut failure, report);
            return self.stopped_as(ix, cancelling.cause, verb, failure, &reason);
        }
        match failure {
            None => {
                self.step_mut(ix).output = report.output.clone();
                self.end(ix, Verb::Succeed, End::Success, None, "it ended well")
            }
            Some(failure) => match report.stopped {
                Some(Stopped::Cancelled) => {
                    let reason = failure.message.clone();
                    // Only a running step can be cancelled by its own report; after a cut it counts as failed.
                    if self.step(ix).state.name() == StateName::Running {
                        self.end(ix, Verb::Cancel, End::Cancelled, Some(failure), &reason)
                    } else {
                        self.end(ix, Verb::Fail, End::Failed, Some(failure), &reason)
                    }
                }
                Some(Stopped::LeaseExpired | Stopped::Worker) => {
                    self.decide_loss(ix, failure, Some(Ground::ReportedGone))
                }
                Some(Stopped::Timeout) | None => self.fail_or_retry(ix, failure),
            },
        }
    }

    /// Its runner, who keeps its time, did not stop it for that: only the word of its end came late. None if it did.
    fn ended_in_time(
        &mut self,
        ix: StepIx,
        report: &Report,
        failure: &Option<Failure>,
    ) -> Option<Result<(), Rejection>> {
        match (report.stopped, failure) {
            (None, failure) => {
                let reason = "it ended well, before the order to stop reached it";
                Some(self.ended_by_itself(ix, report, failure.clone(), reason))
            }
            (Some(Stopped::LeaseExpired | Stopped::Worker), Some(failure)) => {
                Some(self.decide_loss_by(ix, [Verb::Complete; 3], failure.clone(), Some(Ground::ReportedGone)))
            }
            (Some(_), _) => None,
        }
    }

    /// An attempt that was told to stop and did not end for it: its own end counts.
    pub(super) fn ended_by_itself(
        &mut self,
        ix: StepIx,
        report: &Report,
        failure: Option<Failure>,
        reason: &str,
    ) -> Result<(), Rejection> {
        match failure {
            None => {
                self.step_mut(ix).output = report.output.clone();
                self.end(ix, Verb::Complete, End::Success, None, reason)
            }
            Some(failure) => self.timed_out(ix, Verb::Complete, failure, Some(Ground::ReportedGone)),
        }
    }

    /// A removed worker is told to stop all that it has, and reports that as the orders which they are: of nobody who
    /// wanted the step to end.
    fn as_meant<'r>(&self, live: Live, report: &'r Report) -> Cow<'r, Report> {
        match report.stopped {
            Some(Stopped::Cancelled) if self.header.cancel.is_none() && self.is_removed(live.worker) => {
                Cow::Owned(Report { stopped: Some(Stopped::Worker), ..report.clone() })
            }
            _ => Cow::Borrowed(report),
        }
    }

    pub(super) fn fail_or_retry(&mut self, ix: StepIx, failure: Failure) -> Result<(), Rejection> {
        let executed = self.step(ix).executions;
        match self.def(ix).retry.next_delay(&failure, executed, self.ctx.random) {
            Some(delay) if !self.is_called_off(ix) => self.retry(ix, Verb::Retry, delay, failure),
            Some(_) | None => {
                let reason = failure.message.clone();
                self.end(ix, Verb::Fail, End::Failed, Some(failure), &reason)
            }
        }
    }

    pub(super) fn retry(&mut self, ix: StepIx, verb: Verb, delay: Duration, failure: Failure) -> Result<(), Rejection> {
        if self.is_in_doubt(ix) {
            return self.hold_after(ix, failure);
        }
        let executed = self.step(ix).executions;
        let attempts = self.def(ix).retry.attempts;
        let reason = format!("{}; execution {} of {attempts} is next", failure.message, executed + 1);
        let delay = if planted::is(Bug::RetryAtOnce) { Duration::ZERO } else { delay };
        let waiting = Waiting { until: self.ctx.now + delay, reason: WaitReason::Retry };
        self.shift(ix, verb, State::Waiting(waiting), &reason)?;
        let step = self.step_mut(ix);
        // It came to an end of its own, or to its timeout: whatever its workers went through before, they were not
        // lost in a row.
        step.losses = 0;
        step.error = Some(failure);
        Ok(())
    }

    fn record_end(&mut self, ix: StepIx, live: Live, report: &Report, error: Option<Failure>) {
        let (exit_code, signal) = match report.outcome {
            Outcome::Exited(code) => (Some(code), None),
            Outcome::Signaled { signal, .. } => (None, Some(signal)),
            Outcome::SpawnFailed(_) => (None, None),
        };
        self.record(Attempt {
            state: AttemptState::Ended,
            confirmed: true,
            ended_at: Some(self.ctx.now),
            exit_code,
            signal,
            error,
            usage: report.usage,
            cleanup: report.cleanup.clone(),
            ..Attempt::started(ix, live)
        });
    }

    /// What is wrong with this end; none if it is a success.
    pub(super) fn failure_of(&self, ix: StepIx, report: &Report) -> Option<Failure> {
        let name = self.name(ix);
        let stopped = report.stopped.map(|stopped| match stopped {
            Stopped::Timeout => {
                let after = self.def(ix).timeout.unwrap_or_default();
                let message = format!("Step `{name}` was stopped: it took longer than its timeout of {after:?}");
                Failure::new(FailureKind::StepTimeout, message)
            }
            Stopped::Cancelled => Failure::new(FailureKind::Cancelled, format!("Step `{name}` was cancelled")),
            Stopped::LeaseExpired => self.failure_of_lease(ix),
            Stopped::Worker => self.failure_of_leaving(ix),
        });
        let mut failure = stopped.or_else(|| failure_of_outcome(&name, report))?;
        add_unstored(&mut failure, report);
        Some(failure)
    }

    pub(super) fn queued(&self, ix: StepIx, wanted: &'static str) -> Result<&Queued, Rejection> {
        match &self.step(ix).state {
            State::Queued(queued) => Ok(queued),
            other => Err(Rejection::NotNow { state: other.name(), wanted }),
        }
    }

    pub(super) fn offered(&self, ix: StepIx, wanted: &'static str) -> Result<Offer, Rejection> {
        let missing = Rejection::NotNow { state: self.step(ix).state.name(), wanted };
        self.queued(ix, wanted)?.offer.ok_or(missing)
    }

    pub(super) fn set_offer(&mut self, ix: StepIx, offer: Option<Offer>, not_before: Option<crate::time::Time>) {
        let step = self.step_mut(ix);
        step.for_operator = false;
        if let State::Queued(queued) = &mut step.state {
            queued.offer = offer;
            queued.not_before = not_before;
        }
    }

    /// Tells the worker, if one holds an offer of this step, that it no longer stands.
    pub(super) fn drop_offer(&mut self, ix: StepIx) {
        if let Some(offer) = self.step(ix).state.offer().copied() {
            let ticket = Ticket { step: ix, attempt: offer.attempt, fence: offer.fence };
            self.set_offer(ix, None, None);
            self.effect(Effect::Withdraw { ticket, worker: offer.worker });
        }
    }
}

fn failure_of_outcome(name: &str, report: &Report) -> Option<Failure> {
    Some(match &report.outcome {
        Outcome::Exited(0) => match (&report.output_error, &report.artifacts) {
            (Some(problem), _) => Failure::new(
                FailureKind::BadOutput,
                format!("Step `{name}` ended well, but its outputs did not: {problem}"),
            ),
            (None, Some(Artifacts::Failed(why))) => {
                let message = format!("Step `{name}` ended well, but its artifacts were not stored: {why}");
                Failure::new(FailureKind::Artifacts, message)
            }
            (None, Some(Artifacts::Stored(_)) | None) => return None,
        },
        Outcome::Exited(code) => {
            Failure::new(FailureKind::ExitCode(*code), format!("Step `{name}` exited with code {code}"))
        }
        Outcome::Signaled { oom: true, .. } => {
            Failure::new(FailureKind::OomKilled, format!("Step `{name}` was killed: out of memory"))
        }
        Outcome::Signaled { signal, oom: false } => {
            Failure::new(FailureKind::Signal(*signal), format!("Step `{name}` was ended by signal {signal}"))
        }
        Outcome::SpawnFailed(why) => {
            Failure::new(FailureKind::SpawnFailed, format!("Step `{name}` could not be started: {why}"))
        }
    })
}

/// What it failed of, or was stopped for, comes first, and stays what it is.
fn add_unstored(failure: &mut Failure, report: &Report) {
    if let Some(Artifacts::Failed(why)) = &report.artifacts
        && failure.kind != FailureKind::Artifacts
    {
        failure.message = format!("{}; its artifacts were not stored: {why}", failure.message);
    }
}
