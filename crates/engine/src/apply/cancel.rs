//! Ending a job on purpose, and what an order to stop comes to.

use std::time::Duration;

use planted::Bug;

use crate::definition::{Condition, StepDef};
use crate::event::{About, Effect, Rejection, Ticket};
use crate::failure::{Failure, FailureKind};
use crate::ids::StepIx;
use crate::job::{CancelCause, CancelOrder};
use crate::state::{Cancelling, End, Ground, State, StateName, StopCause, StopMode};
use crate::table::Verb;
use crate::time::Time;

use super::draft::Draft;

/// What a stop may take beyond its grace and its cleanup: messages, the kill, the rest of the output of both, the exit
/// record.
pub const STOP_MARGIN: Duration = Duration::from_secs(10);
/// And for the files that a step leaves however it ends. Its worker gives them up ten seconds earlier, and reports.
const STORE_AFTER_STOP: Duration = Duration::from_secs(60);

impl Draft<'_> {
    pub(super) fn cancel_asked(&mut self, by: &str, force: bool) -> Result<(), Rejection> {
        let order = CancelOrder { at: self.ctx.now, by: by.to_owned(), force, cause: CancelCause::Asked };
        let first = match &self.header.cancel {
            None => true,
            Some(known) if force && !known.force => false,
            Some(_) => return Ok(()),
        };
        if first {
            self.header.cancel = Some(order);
        } else if let Some(known) = &mut self.header.cancel {
            known.force = true;
        }
        self.note(About::CancelAsked, &format!("asked by {by}{}", if force { ", by force" } else { "" }));
        // A job without a slot has nothing running, and may begin nothing: not even what `always()` asks for.
        let at_once = force || self.awaits_slot();
        self.cancel_steps(StopCause::Cancel, at_once)
    }

    pub(super) fn cancel_for_timeout(&mut self) -> Result<(), Rejection> {
        let by = "the job's timeout".to_owned();
        self.header.cancel = Some(CancelOrder { at: self.ctx.now, by, force: false, cause: CancelCause::JobTimeout });
        self.note(About::CancelAsked, "the job's timeout is over");
        self.cancel_steps(StopCause::JobTimeout, false)
    }

    fn cancel_steps(&mut self, cause: StopCause, force: bool) -> Result<(), Rejection> {
        for index in 0..self.count() {
            self.cancel_step(StepIx::of(index), cause, force)?;
        }
        Ok(())
    }

    pub(super) fn cancel_step(&mut self, ix: StepIx, cause: StopCause, force: bool) -> Result<(), Rejection> {
        if let State::Delegated(delegated) = self.step(ix).state {
            return self.call_off(ix, delegated, cause, force);
        }
        let (failure, reason) = self.stop_failure(ix, cause);
        match self.step(ix).state.name() {
            StateName::Pending => {
                // `always()` and `cancelled()` get their say once their needs are final, unless by force. That of an item
                // was heard before it came to be.
                let asks = matches!(self.def(ix).condition, Condition::Expression(_));
                let waits = asks && self.step(ix).item.is_none();
                if waits && !force {
                    return Ok(());
                }
                self.end(ix, Verb::Cancel, End::Cancelled, Some(failure), &reason)
            }
            StateName::Queued => {
                self.drop_offer(ix);
                self.end(ix, Verb::Cancel, End::Cancelled, Some(failure), &reason)
            }
            StateName::Waiting if planted::is(Bug::RetryRevivesCancelled) => Ok(()),
            StateName::Recovering if planted::is(Bug::WindowRevivesCancelled) => Ok(()),
            StateName::Waiting | StateName::Held => self.end(ix, Verb::Cancel, End::Cancelled, Some(failure), &reason),
            StateName::Recovering if planted::is(Bug::CancelRefreshesWindow) => {
                let deadline = self.ctx.heard + self.ctx.rules.recovery_window;
                if let State::Recovering(recovering) = &mut self.step_mut(ix).state {
                    recovering.deadline = deadline;
                }
                Ok(())
            }
            StateName::Recovering => {
                self.attempt_lost(ix, Some(failure.clone()), false);
                self.end(ix, Verb::CancelGraceful, End::Cancelled, Some(failure), &reason)
            }
            StateName::Running => self.stop(ix, Verb::CancelGraceful, cause, mode(force), &reason),
            StateName::Cancelling => {
                if force {
                    self.harden(ix);
                }
                Ok(())
            }
            StateName::Success | StateName::Failed | StateName::Cancelled | StateName::Skipped => Ok(()),
        }
    }

    /// Orders a running attempt to stop; its deadline decides if no answer comes.
    pub(super) fn stop(
        &mut self,
        ix: StepIx,
        verb: Verb,
        cause: StopCause,
        mode: StopMode,
        reason: &str,
    ) -> Result<(), Rejection> {
        let State::Running(live) = self.step(ix).state else {
            return Err(Rejection::NotNow { state: self.step(ix).state.name(), wanted: "stop" });
        };
        let deadline = self.stop_deadline(ix, mode);
        let state = State::Cancelling(Cancelling { live, cause, mode, deadline, cut: None });
        self.shift(ix, verb, state, reason)?;
        self.order_stop(ix);
        Ok(())
    }

    fn harden(&mut self, ix: StepIx) {
        let deadline = self.stop_deadline(ix, StopMode::Kill);
        if let State::Cancelling(cancelling) = &mut self.step_mut(ix).state {
            cancelling.mode = StopMode::Kill;
            cancelling.deadline = cancelling.deadline.min(deadline);
        }
        self.order_stop(ix);
    }

    fn stop_deadline(&self, ix: StepIx, mode: StopMode) -> Time {
        let def = self.def(ix);
        let time = match mode {
            StopMode::Graceful if planted::is(Bug::CleanupNotAwaited) => def.stop.grace,
            StopMode::Graceful => def.stop.grace + after_grace(def),
            // By force nothing is waited for, and nothing is cleaned up.
            StopMode::Kill => Duration::ZERO,
        };
        self.ctx.now + time + STOP_MARGIN
    }

    /// Sends the order of a cancelling step, first or again.
    pub(super) fn order_stop(&mut self, ix: StepIx) {
        if planted::is(Bug::StopNotSent) {
            return;
        }
        if let State::Cancelling(c) = self.step(ix).state {
            let ticket = Ticket { step: ix, attempt: c.live.attempt, fence: c.live.fence };
            let grace = self.def(ix).stop.grace;
            self.effect(Effect::Stop { ticket, worker: c.live.worker, mode: c.mode, cause: c.cause, grace });
        }
    }

    /// Grace, cleanup, files and margin are over without a word. The verdict stands; without a lease the attempt stays unconfirmed.
    pub(super) fn force_cancel(&mut self, ix: StepIx, reason: &str) -> Result<(), Rejection> {
        let State::Cancelling(cancelling) = self.step(ix).state else {
            return Err(Rejection::NotNow { state: self.step(ix).state.name(), wanted: "cancel" });
        };
        let (failure, _) = self.stop_failure(ix, cancelling.cause);
        // An order without an answer proves nothing; only a cut that outlasted the window can be a ground.
        let mut ground = self.ground_by_now(ix);
        if let StopCause::RunnerStale { silent_ms } = cancelling.cause {
            ground = ground.or_else(|| self.ground_of_stale_runner(ix, silent_ms));
        }
        self.attempt_lost(ix, Some(failure.clone()), false);
        match cancelling.cause {
            StopCause::StepTimeout => self.timed_out(ix, Verb::CancelForce, failure, ground),
            StopCause::RunnerStale { silent_ms } => self.decide_silence(ix, Verb::CancelForce, silent_ms, ground),
            StopCause::Cancel | StopCause::JobTimeout | StopCause::Sibling => {
                self.end(ix, Verb::CancelForce, End::Cancelled, Some(failure), reason)
            }
        }
    }

    /// The attempt that was told to stop is over for certain. `verb`: what ends it where it was to be cancelled.
    pub(super) fn stop_confirmed(&mut self, ix: StepIx, cause: StopCause, verb: Verb) -> Result<(), Rejection> {
        let (failure, reason) = self.stop_failure(ix, cause);
        self.stopped_as(ix, cause, verb, failure, &reason)
    }

    /// The same, where more is known of what it was stopped for.
    pub(super) fn stopped_as(
        &mut self,
        ix: StepIx,
        cause: StopCause,
        verb: Verb,
        failure: Failure,
        reason: &str,
    ) -> Result<(), Rejection> {
        match cause {
            StopCause::StepTimeout => self.timed_out(ix, Verb::Complete, failure, Some(Ground::ReportedGone)),
            StopCause::RunnerStale { silent_ms } => {
                self.decide_silence(ix, Verb::Complete, silent_ms, Some(Ground::ReportedGone))
            }
            StopCause::Cancel | StopCause::JobTimeout | StopCause::Sibling => {
                self.end(ix, verb, End::Cancelled, Some(failure), reason)
            }
        }
    }

    /// A step whose stop was ordered by its timeout fails, or is retried by policy, but only on a ground.
    pub(super) fn timed_out(
        &mut self,
        ix: StepIx,
        verb: Verb,
        failure: Failure,
        ground: Option<Ground>,
    ) -> Result<(), Rejection> {
        let executed = self.step(ix).executions;
        let delay = self.def(ix).retry.next_delay(&failure, executed, self.ctx.random);
        match (delay, ground) {
            (Some(delay), Some(_)) if !self.is_called_off(ix) => self.retry(ix, verb, delay, failure),
            _ => {
                let reason = failure.message.clone();
                self.end(ix, verb, End::Failed, Some(failure), &reason)
            }
        }
    }

    pub(super) fn stop_failure(&self, ix: StepIx, cause: StopCause) -> (Failure, String) {
        let name = self.name(ix);
        match cause {
            StopCause::Cancel => {
                let by = self.header.cancel.as_ref().map_or("an operator", |order| order.by.as_str());
                let failure = Failure::new(FailureKind::Cancelled, format!("Step `{name}` was cancelled by {by}"));
                (failure, format!("cancelled by {by}"))
            }
            StopCause::JobTimeout => {
                let failure = Failure::new(FailureKind::JobTimeout, "Step cancelled: the job's timeout is over");
                (failure, "the job's timeout is over".to_owned())
            }
            StopCause::Sibling => {
                let message = format!("Step `{name}` was called off: another item failed, and `fail_fast` is set");
                (Failure::new(FailureKind::Cancelled, message), "another item failed".to_owned())
            }
            StopCause::RunnerStale { silent_ms } => {
                let failure = self.failure_of_stale_runner(ix, silent_ms);
                (failure, "its runner gives no sign of life".to_owned())
            }
            StopCause::StepTimeout => {
                let after = self.def(ix).timeout.unwrap_or_default();
                let message = format!("Step `{name}` was stopped: it took longer than its timeout of {after:?}");
                (Failure::new(FailureKind::StepTimeout, message), "its timeout is over".to_owned())
            }
        }
    }
}

/// When a step that was told to stop gracefully is killed, if it has not ended by then: the rest of its time is for what follows.
pub(crate) fn grace_ends(def: &StepDef, cancelling: &Cancelling) -> Time {
    cancelling.deadline - STOP_MARGIN - after_grace(def)
}

/// What a stopped step may take when its grace is over.
fn after_grace(def: &StepDef) -> Duration {
    let storing = if def.always_leaves_files() { STORE_AFTER_STOP } else { Duration::ZERO };
    def.cleanup().unwrap_or_default() + storing
}

fn mode(force: bool) -> StopMode {
    if force { StopMode::Kill } else { StopMode::Graceful }
}
