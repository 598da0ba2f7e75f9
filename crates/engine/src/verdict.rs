//! What becomes of an attempt that a worker brings back: one verdict each, by the same rows that decide everything else.
//!
//! The ledger asks with every hello, and then lets `apply` move what the verdict moves.

use planted::Bug;

use crate::definition::OnDisconnect;
use crate::event::Ticket;
use crate::failure::FailureKind;
use crate::job::{Job, Step};
use crate::state::{End, State, StopMode};

/// How far the worker has got with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Accepted, and no leave to start was used.
    Waiting,
    /// May have run.
    Running,
    /// Has its exit record.
    Ended,
}

/// What the server has of an attempt that is no longer the step's current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    pub number: u32,
    /// Its end is on record, and so is all of its log.
    pub whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Continue,
    Go,
    SendResult,
    /// The server has all of it, or never wanted it.
    Forget,
    /// Given up, without a successor: run on, the end becomes the late outcome.
    Finish,
    Stop(StopMode),
}

/// `past` is none for an attempt that was never granted.
pub fn verdict(job: &Job, ticket: Ticket, held: Held, past: Option<Past>) -> Verdict {
    let Some(step) = job.steps.get(ticket.step.get()) else { return Verdict::Finish };
    if step.state.ticket() == Some((ticket.attempt, ticket.fence)) {
        return of_current(&step.state, held);
    }
    match (held, past) {
        // Only offered, as far as the record goes: nobody waits for word of it.
        (Held::Waiting, None) => Verdict::Forget,
        // Its leave never came, and it must not come any more. That it is over is on record when the worker says so, not before.
        (Held::Waiting, Some(_)) if planted::is(Bug::WaitingForgotten) => Verdict::Forget,
        (Held::Waiting, Some(_)) => Verdict::Stop(StopMode::Kill),
        (Held::Ended, Some(Past { whole: true, .. })) => Verdict::Forget,
        (Held::Ended, _) => Verdict::SendResult,
        (Held::Running, Some(past)) => {
            // What was cancelled by force while it was away has neither grace nor cleanup when it is back.
            let by_force = job.header.cancel.as_ref().is_some_and(|order| order.force);
            let mode = if by_force { StopMode::Kill } else { StopMode::Graceful };
            of_past(step, job.def(ticket.step).on_disconnect, past.number, mode)
        }
        // It says that it ran, and had no leave: nothing is known that would let it go on.
        (Held::Running, None) => Verdict::Stop(StopMode::Kill),
    }
}

fn of_current(state: &State, held: Held) -> Verdict {
    match (state, held) {
        (_, Held::Ended) => Verdict::SendResult,
        (State::Cancelling(cancelling), Held::Waiting | Held::Running) => Verdict::Stop(cancelling.mode),
        (State::Running(_) | State::Recovering(_), Held::Waiting) => Verdict::Go,
        (State::Running(_) | State::Recovering(_) | State::Held(_), Held::Running) => Verdict::Continue,
        // Put before a person, who has to say that it may start: with this leave it must not any more.
        (State::Held(_), Held::Waiting) => Verdict::Stop(StopMode::Kill),
        // Only offered: the offer ended with the link that it was made on.
        (_, Held::Waiting) => Verdict::Forget,
        (_, Held::Running) => Verdict::Stop(StopMode::Kill),
    }
}

/// An attempt that may still run, and that its step has given up. `mode`: how it is stopped where that was the purpose.
fn of_past(step: &Step, on_disconnect: OnDisconnect, number: u32, mode: StopMode) -> Verdict {
    if planted::is(Bug::StrayRunsOn) {
        return Verdict::Finish;
    }
    let ended_on_purpose = step.error.as_ref().is_some_and(|error| {
        matches!(error.kind, FailureKind::Cancelled | FailureKind::StepTimeout | FailureKind::JobTimeout)
    });
    match &step.state {
        State::Final(_) if step.attempts > number => Verdict::Stop(StopMode::Kill),
        State::Final(End::Cancelled) => Verdict::Stop(mode),
        State::Final(_) if ended_on_purpose => Verdict::Stop(mode),
        State::Final(_) if on_disconnect == OnDisconnect::Stop => Verdict::Stop(StopMode::Kill),
        State::Final(_) => Verdict::Finish,
        // It has a successor, or gets one.
        State::Pending
        | State::Queued(_)
        | State::Running(_)
        | State::Delegated(_)
        | State::Recovering(_)
        | State::Cancelling(_)
        | State::Held(_)
        | State::Waiting(_) => Verdict::Stop(StopMode::Kill),
    }
}
