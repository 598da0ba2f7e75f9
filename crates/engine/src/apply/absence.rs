//! More that can be known of a worker whose link is gone: that it will not come back, or that we may be the cause.

use crate::definition::OnDisconnect;
use crate::event::{About, AttemptNews, NoReturn, Rejection, Stale, Ticket};
use crate::ids::Epoch;
use crate::state::{Ground, Recovering, State};

use super::draft::Draft;

impl Draft<'_> {
    /// Nobody is waited for: effects decide at once. It proves nothing, so that the attempt stays unconfirmed; and one
    /// that is bound by a lease gets its window, since only the end of that is a ground.
    pub(super) fn no_return(&mut self, ticket: Ticket, epoch: Epoch, why: NoReturn) -> Result<(), Rejection> {
        let ix = ticket.step;
        let live = self.live(ix, "give up")?;
        if epoch != live.epoch {
            return Err(Rejection::Stale(Stale::Epoch));
        }
        let def = self.def(ix);
        match &self.step(ix).state {
            State::Running(_) | State::Recovering(_) if def.on_disconnect == OnDisconnect::Keep => {
                let failure = self.failure_of_no_return(ix, &live, why);
                self.attempt_lost(ix, Some(failure.clone()), false);
                self.decide_loss(ix, failure, Ground::of_silence(def.effects, false))
            }
            State::Running(_) | State::Cancelling(_) => self.link_lost(ticket, epoch),
            other => Err(Rejection::NotNow { state: other.name(), wanted: "give up" }),
        }
    }

    /// Many workers were lost at once: the fault may be ours, and each of them gets one more window.
    pub(super) fn more_time(&mut self, ticket: Ticket, epoch: Epoch, reason: &str) -> Result<(), Rejection> {
        let ix = ticket.step;
        let window = self.ctx.rules.recovery_window;
        match self.step(ix).state.clone() {
            State::Recovering(r) if r.live.epoch != epoch => Err(Rejection::Stale(Stale::Epoch)),
            State::Recovering(r) if !r.extended => {
                let state = State::Recovering(Recovering { deadline: r.deadline + window, extended: true, ..r });
                self.step_mut(ix).state = state;
                self.note(About::Attempt { step: ix, worker: r.live.worker, what: AttemptNews::MoreTime }, reason);
                Ok(())
            }
            other => Err(Rejection::NotNow { state: other.name(), wanted: "give more time" }),
        }
    }
}
