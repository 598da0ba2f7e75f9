//! Signs of life that stay out: an offer goes elsewhere, a runner is told to stop. Where the installation leaves that to
//! people, an operator is asked instead, again and again.

use std::time::Duration;

use crate::attempt::{Report, Stopped};
use crate::event::{About, AttemptNews, OfferNews, Rejection, Ticket};
use crate::failure::{Failure, FailureKind};
use crate::ids::{StepIx, WorkerId};
use crate::state::{Ground, Live, State, StopCause, StopMode};
use crate::table::Verb;

use super::draft::Draft;
use super::words::seconds;

impl Draft<'_> {
    /// `by`: who ordered it; none for the server itself.
    pub(super) fn fell_silent(&mut self, ticket: Ticket, silent: Duration, by: Option<&str>) -> Result<(), Rejection> {
        let ix = ticket.step;
        match self.step(ix).state {
            State::Queued(_) => self.claim_is_stale(ix, silent, by),
            State::Running(live) => self.runner_is_stale(ix, live, silent, by),
            // Of a cut-off attempt only its window decides.
            ref other => Err(Rejection::NotNow { state: other.name(), wanted: "give up as silent" }),
        }
    }

    /// Nothing has started, so it can go elsewhere; the silence is not the step's fault.
    fn claim_is_stale(&mut self, ix: StepIx, silent: Duration, by: Option<&str>) -> Result<(), Rejection> {
        let offer = self.offered(ix, "withdraw")?;
        let reason = format!("no heartbeat from {} for {}", self.worker(offer.worker), told_as(silent));
        if by.is_none() && !self.ctx.rules.auto_requeue_stale_claimed {
            self.ask_operator(
                ix,
                offer.worker,
                &format!("{reason}; `bowline recover requeue` hands it to another one"),
            );
            return Ok(());
        }
        self.drop_offer(ix);
        self.step_mut(ix).avoid = Some(offer.worker);
        self.note_offer(ix, offer.worker, OfferNews::Lost, &ordered(&reason, by));
        Ok(())
    }

    /// Its worker is there and its runner says nothing: first an order to stop, then policy, then effects.
    fn runner_is_stale(&mut self, ix: StepIx, live: Live, silent: Duration, by: Option<&str>) -> Result<(), Rejection> {
        let reason = format!("no sign of life from the step's runner for {}", told_as(silent));
        if by.is_none() && !self.ctx.rules.auto_fail_stale_running {
            self.ask_operator(ix, live.worker, &format!("{reason}; `bowline recover fail` gives it up"));
            return Ok(());
        }
        let silent_ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
        let cause = StopCause::RunnerStale { silent_ms };
        self.stop(ix, Verb::Stop, cause, StopMode::Graceful, &ordered(&reason, by))
    }

    fn ask_operator(&mut self, ix: StepIx, worker: WorkerId, reason: &str) {
        self.step_mut(ix).for_operator = true;
        self.note(About::Attempt { step: ix, worker, what: AttemptNews::Silent }, reason);
    }

    /// It was only late.
    pub(super) fn heard_again(&mut self, ticket: Ticket) -> Result<(), Rejection> {
        let ix = ticket.step;
        let state = &self.step(ix).state;
        let worker = state.live().map(|live| live.worker).or_else(|| state.offer().map(|offer| offer.worker));
        let (Some(worker), true) = (worker, self.step(ix).for_operator) else {
            return Err(Rejection::NotNow { state: state.name(), wanted: "hear again" });
        };
        self.step_mut(ix).for_operator = false;
        self.note(About::Attempt { step: ix, worker, what: AttemptNews::HeardAgain }, "it gives signs of life again");
        Ok(())
    }

    /// The attempt ended after its runner was told to stop for its silence.
    pub(super) fn ended_after_silence(
        &mut self,
        ix: StepIx,
        silent_ms: u64,
        report: &Report,
        failure: Option<Failure>,
    ) -> Result<(), Rejection> {
        match report.stopped {
            // It only could not say so: what it did is done.
            Some(Stopped::Timeout) | None => {
                self.ended_by_itself(ix, report, failure, "it ended well, although its runner was silent")
            }
            Some(_) => self.decide_silence(ix, Verb::Complete, silent_ms, Some(Ground::ReportedGone)),
        }
    }

    /// What follows from a silence, once it is clear how the attempt ended, or that nobody will say.
    pub(super) fn decide_silence(
        &mut self,
        ix: StepIx,
        verb: Verb,
        silent_ms: u64,
        ground: Option<Ground>,
    ) -> Result<(), Rejection> {
        let failure = self.failure_of_stale_runner(ix, silent_ms);
        self.decide_loss_by(ix, [verb; 3], failure, ground)
    }

    /// The ground that a runner's silence gives by itself: what may be repeated beside a stray copy, once it has been
    /// silent for a whole window.
    pub(super) fn ground_of_stale_runner(&self, ix: StepIx, silent_ms: u64) -> Option<Ground> {
        let def = self.def(ix);
        let over = Duration::from_millis(silent_ms) >= self.ctx.rules.recovery_window;
        let keeps = def.on_disconnect == crate::definition::OnDisconnect::Keep;
        if over && keeps { Ground::of_silence(def.effects, false) } else { None }
    }

    pub(super) fn failure_of_stale_runner(&self, ix: StepIx, silent_ms: u64) -> Failure {
        let beginning = format!(
            "Job failed: no sign of life from the step's runner for {}",
            told_as(Duration::from_millis(silent_ms))
        );
        match self.step(ix).state.live() {
            Some(live) => self.told(ix, FailureKind::RunnerStale, &beginning, live),
            None => Failure::new(FailureKind::RunnerStale, beginning),
        }
    }
}

/// Whole seconds, but for very short ones.
fn told_as(silent: Duration) -> String {
    match silent.as_secs() {
        0 | 1 => seconds(silent),
        _ => seconds(Duration::from_secs_f64(silent.as_secs_f64().round())),
    }
}

fn ordered(reason: &str, by: Option<&str>) -> String {
    match by {
        Some(by) => format!("{reason}; ordered by {by}"),
        None => reason.to_owned(),
    }
}
