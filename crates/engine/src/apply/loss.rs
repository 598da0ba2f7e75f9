//! Links that break and attempts that are gone: when to wait, and what to decide.

use std::time::Duration;

use planted::Bug;

use crate::attempt::{Attempt, AttemptState, Loss};
use crate::definition::OnDisconnect;
use crate::event::{About, AttemptNews, OfferNews, Rejection, Stale, Ticket};
use crate::failure::Failure;
use crate::ids::{Epoch, StepIx};
use crate::state::{Cancelling, Cut, End, Ground, Live, Recovering, State};
use crate::table::Verb;
use crate::time::{Heard, Time};

use super::draft::Draft;

/// The wait before a step is offered again whose attempt never started.
const AFTER_VOID: Duration = Duration::from_secs(1);

impl Draft<'_> {
    pub(super) fn link_lost(&mut self, ticket: Ticket, epoch: Epoch) -> Result<(), Rejection> {
        let reason = format!("is gone (link {})", epoch.0);
        self.link_lost_since(ticket, epoch, self.ctx.heard, &reason)
    }

    /// The server was found dead only now: what it held is waited for since it was last heard.
    pub(super) fn server_lost(&mut self, ticket: Ticket, epoch: Epoch, since: Heard) -> Result<(), Rejection> {
        let reason = format!("is gone with its server (link {})", epoch.0);
        // The server that was last heard then may have started it later, before it was gone again.
        let started_at = self.live(ticket.step, "recover")?.started_at;
        let started = Heard((Time(self.ctx.heard.0) - self.ctx.now.since(started_at)).0);
        self.link_lost_since(ticket, epoch, since.max(started).min(self.ctx.heard), &reason)
    }

    fn link_lost_since(&mut self, ticket: Ticket, epoch: Epoch, since: Heard, why: &str) -> Result<(), Rejection> {
        let ix = ticket.step;
        let live = self.live(ix, "recover")?;
        // Only the link that the attempt is on can be lost for it.
        if epoch != live.epoch && !planted::is(Bug::OldCloseEndsNewLink) {
            return Err(Rejection::Stale(Stale::Epoch));
        }
        let now = self.ctx.now;
        match self.step(ix).state.clone() {
            State::Running(_) => {
                let reason = format!("the link to {} {why}", self.worker(live.worker));
                self.await_return(ix, live, since, &reason)
            }
            State::Cancelling(cancelling) if cancelling.cut.is_none() => {
                let cut = Some(Cut { at: now, heard: since });
                let state = State::Cancelling(Cancelling { cut, ..cancelling });
                self.shift(ix, Verb::Recover, state, "the worker's link is gone; the deadline decides")
            }
            other => Err(Rejection::NotNow { state: other.name(), wanted: "recover" }),
        }
    }

    /// The worker is back and has it: the attempt goes on, on the new link.
    pub(super) fn reattached(&mut self, ticket: Ticket, epoch: Epoch) -> Result<(), Rejection> {
        let ix = ticket.step;
        let known = self.live(ix, "continue")?;
        // A lost link does not come back: only a newer one can speak for the attempt.
        if epoch <= known.epoch {
            return Err(Rejection::Stale(Stale::Epoch));
        }
        let live = Live { epoch, ..known };
        match self.step(ix).state.clone() {
            State::Running(_) => {
                // The new hello came before the old link's end was noticed.
                self.record(Attempt::started(ix, live));
                self.step_mut(ix).state = State::Running(live);
                Ok(())
            }
            State::Recovering(_) if planted::is(Bug::ReturnNotBelieved) => Err(Rejection::Stale(Stale::Epoch)),
            State::Recovering(recovering) => {
                let away = self.ctx.now.since(recovering.disconnected_at);
                self.record(Attempt::started(ix, live));
                let who = self.worker(live.worker);
                let reason = format!("{who} came back after {:.1}s (link {})", away.as_secs_f64(), epoch.0);
                self.shift(ix, Verb::Start, State::Running(live), &reason)
            }
            State::Held(_) => {
                self.record(Attempt::started(ix, live));
                let reason = format!("{} has it (link {})", self.worker(live.worker), epoch.0);
                self.shift(ix, Verb::Start, State::Running(live), &reason)
            }
            State::Cancelling(cancelling) => {
                self.record(Attempt::started(ix, live));
                self.step_mut(ix).state = State::Cancelling(Cancelling { live, cut: None, ..cancelling });
                self.order_stop(ix);
                Ok(())
            }
            other => Err(Rejection::NotNow { state: other.name(), wanted: "continue" }),
        }
    }

    /// The attempt is certainly over and left no result.
    pub(super) fn gone(&mut self, ticket: Ticket, epoch: Epoch, loss: &Loss) -> Result<(), Rejection> {
        let ix = ticket.step;
        // Seen on a later link it is as true: the hello that brings the news comes on a link of its own.
        let live = self.live(ix, "give up")?;
        if epoch < live.epoch {
            return Err(Rejection::Stale(Stale::Epoch));
        }
        let (failure, ground) = self.failure_of_loss(ix, &live, loss);
        self.attempt_lost(ix, Some(failure.clone()), true);
        if let State::Cancelling(cancelling) = self.step(ix).state {
            return self.stop_confirmed(ix, cancelling.cause, Verb::Complete);
        }
        if ground == Ground::NeverStarted {
            // Proven void: it was no execution, and spends no budget. After a cancel it is a step that runs because
            // of it (what ran before was told to stop), so it is handed over again all the same.
            let step = self.step_mut(ix);
            step.executions -= 1;
            // Whatever kept it from starting may do so again: elsewhere if possible, and not at full speed.
            step.avoid = Some(live.worker);
            if self.is_in_doubt(ix) {
                return self.hold_in_doubt(ix, "the attempt never started");
            }
            self.enqueue(ix, Verb::Requeue, "the attempt never started")?;
            self.set_offer(ix, None, Some(self.ctx.now + AFTER_VOID));
            return Ok(());
        }
        self.decide_loss(ix, failure, Some(ground))
    }

    /// After a loss: the policy if it names `worker_lost`, else effects and the loss budget, else failure.
    pub(super) fn decide_loss(
        &mut self,
        ix: StepIx,
        failure: Failure,
        ground: Option<Ground>,
    ) -> Result<(), Rejection> {
        self.decide_loss_by(ix, [Verb::Fail, Verb::Retry, Verb::Requeue], failure, ground)
    }

    /// The same, by the verbs that the step's state knows for it.
    pub(super) fn decide_loss_by(
        &mut self,
        ix: StepIx,
        [fail, retry, requeue]: [Verb; 3],
        failure: Failure,
        ground: Option<Ground>,
    ) -> Result<(), Rejection> {
        let def = self.def(ix);
        let fail = |draft: &mut Self, failure: Failure| {
            let reason = failure.message.clone();
            draft.end(ix, fail, End::Failed, Some(failure), &reason)
        };
        let Some(ground) = ground.filter(|_| !self.is_called_off(ix) || planted::is(Bug::WindowRevivesCancelled))
        else {
            return fail(self, failure);
        };
        if self.is_in_doubt(ix) {
            // What a person makes of a loss is no execution of the policy.
            self.step_mut(ix).executions -= 1;
            return self.hold_after(ix, failure);
        }
        let executed = self.step(ix).executions;
        if def.retry.on.worker_lost {
            return match def.retry.next_delay(&failure, executed, self.ctx.random) {
                Some(delay) => self.retry(ix, retry, delay, failure),
                None => fail(self, failure),
            };
        }
        if !def.effects.may_repeat() {
            return fail(self, failure);
        }
        let step = self.step_mut(ix);
        step.losses += 1;
        let losses = step.losses;
        if losses >= self.ctx.rules.max_losses && !planted::is(Bug::LossesWithoutEnd) {
            let poison = self.failure_of_poison(ix, losses, &failure);
            return fail(self, poison);
        }
        // A repeat by effects is not an execution of the policy.
        if !planted::is(Bug::LossSpendsRetry) {
            self.step_mut(ix).executions -= 1;
        }
        let reason = format!("{}; its effects allow a repeat (ground: {})", failure.message, ground.word());
        self.enqueue(ix, requeue, &reason)
    }

    /// The window is over and nobody came back.
    pub(super) fn window_over(&mut self, ix: StepIx, recovering: &Recovering) -> Result<(), Rejection> {
        let failure = self.failure_of_silence(ix, recovering);
        let ground = self.ground_by_now(ix);
        self.attempt_lost(ix, Some(failure.clone()), false);
        self.decide_loss(ix, failure, ground)
    }

    /// The worker was taken out of the fleet. What it holds may still run, so that nothing here is a ground for a
    /// successor: where effects or policy allow one, the window must be over first; else the verdict is now.
    pub(super) fn worker_removed(&mut self, ticket: Ticket, by: &str) -> Result<(), Rejection> {
        let ix = ticket.step;
        let reason = format!("its worker was removed by {by}");
        match self.step(ix).state.clone() {
            State::Queued(_) => {
                let offer = self.offered(ix, "withdraw")?;
                self.set_offer(ix, None, None);
                self.note_offer(ix, offer.worker, OfferNews::Lost, &reason);
                Ok(())
            }
            State::Running(live) if self.may_follow_silence(ix) => {
                self.await_return(ix, live, self.ctx.heard, &format!("{reason}; its window decides"))
            }
            State::Recovering(_) if self.may_follow_silence(ix) => Ok(()),
            // Only a person goes on from here, and is told what may still run.
            State::Held(_) => Ok(()),
            State::Running(live) | State::Recovering(Recovering { live, .. }) => {
                let failure = self.failure_of_removal(ix, &live);
                self.attempt_lost(ix, Some(failure.clone()), false);
                self.end(ix, Verb::Fail, End::Failed, Some(failure), &reason)
            }
            State::Cancelling(_) => self.force_cancel(ix, &reason),
            other => Err(Rejection::NotNow { state: other.name(), wanted: "give up" }),
        }
    }

    /// Whether the end of the window could bring a new attempt.
    fn may_follow_silence(&self, ix: StepIx) -> bool {
        let (def, step) = (self.def(ix), self.step(ix));
        let by_policy = def.retry.on.worker_lost && step.executions < def.retry.attempts;
        let by_effects = !def.retry.on.worker_lost && def.effects.may_repeat();
        !self.is_called_off(ix) && self.ground_of_silence(ix).is_some() && (by_policy || by_effects)
    }

    fn ground_of_silence(&self, ix: StepIx) -> Option<Ground> {
        let def = self.def(ix);
        Ground::of_silence(def.effects, def.on_disconnect == OnDisconnect::Stop)
    }

    /// A running attempt gets its recovery window.
    fn await_return(&mut self, ix: StepIx, live: Live, since: Heard, reason: &str) -> Result<(), Rejection> {
        let now = self.ctx.now;
        let deadline = since + self.ctx.rules.recovery_window;
        self.record(Attempt { state: AttemptState::Recovering, ..Attempt::started(ix, live) });
        let state = State::Recovering(Recovering { live, disconnected_at: now, deadline, extended: false });
        self.shift(ix, Verb::Recover, state, reason)
    }

    /// The ground that a cut gives by now, if any: its window must be over.
    pub(super) fn ground_by_now(&self, ix: StepIx) -> Option<Ground> {
        let window_end = match &self.step(ix).state {
            State::Recovering(recovering) => Some(recovering.deadline),
            State::Cancelling(cancelling) => cancelling.cut.map(|cut| cut.heard + self.ctx.rules.recovery_window),
            State::Pending | State::Queued(_) | State::Running(_) | State::Delegated(_) => None,
            State::Held(_) | State::Waiting(_) | State::Final(_) => None,
        };
        let over = window_end.is_some_and(|end| self.ctx.clocks().may_judge(end));
        over.then(|| self.ground_of_silence(ix)).flatten()
    }

    /// Closes the current attempt's row as lost. `confirmed`: nothing of it runs any more; a lease that is over is proof
    /// of that, whoever closes the row.
    pub(super) fn attempt_lost(&mut self, ix: StepIx, error: Option<Failure>, confirmed: bool) {
        if let Some(live) = self.step(ix).state.live().copied() {
            self.header.recovered = true;
            let confirmed = confirmed || self.ground_by_now(ix) == Some(Ground::LeaseOver);
            if !confirmed {
                // Who may be repeated beside a stray copy is not waited for.
                self.header.strays |= self.ground_by_now(ix).is_none();
                let reason = format!("{} is given up and may still run", self.whereabouts(&live));
                self.note(About::Attempt { step: ix, worker: live.worker, what: AttemptNews::Unconfirmed }, &reason);
            }
            self.record(Attempt {
                state: AttemptState::Lost,
                confirmed,
                ended_at: Some(self.ctx.now),
                error,
                ..Attempt::started(ix, live)
            });
        }
    }

    pub(super) fn live(&self, ix: StepIx, wanted: &'static str) -> Result<Live, Rejection> {
        let state = &self.step(ix).state;
        state.live().copied().ok_or(Rejection::NotNow { state: state.name(), wanted })
    }
}
