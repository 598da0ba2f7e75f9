//! The one function that changes a job.
//!
//! `apply` reads a job and an event and returns everything that follows, or a typed refusal. It works on a
//! [`draft::Draft`], a copy of just the steps that it touches, so a refusal leaves nothing behind.

mod absence;
mod attempts;
mod cancel;
mod checks;
mod child;
mod continuation;
mod draft;
mod fan_out;
mod groups;
mod holds;
mod hooks;
mod loss;
mod notices;
mod release;
mod resolve;
mod restored;
mod silence;
mod words;

use std::sync::Arc;

use planted::Bug;
use serde_json::Value;

use crate::deadline::Rules;
use crate::definition::Definition;
use crate::eval::Evaluator;
use crate::event::{Birth, Changes, Effect, Event, Rejection, Stale, Ticket};
use crate::failure::{Failure, FailureKind};
use crate::ids::{JobId, StepIx};
use crate::job::{Counts, Header, Job, JobState, Step};
use crate::state::{End, State, StateName, StopCause, StopMode};
use crate::table::Verb;
use crate::time::{Clocks, Heard, Time};
use crate::workers::Workers;

pub use cancel::STOP_MARGIN;
pub(crate) use cancel::grace_ends;
pub use groups::{GROUP_NAME_MAX, group_of};
pub use hooks::{is_occasion, no_job_follows};

pub use continuation::{Continuation, LastAttempt, Origin, carry_on};
pub use resolve::{Resolution, Resolve};

use draft::Draft;

/// What the engine may not find out by itself.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    pub now: Time,
    /// Hearing time now, in which silence is measured; and from when on it may be judged.
    pub heard: Heard,
    pub verdicts_from: Heard,
    /// Fresh random bits, for jitter.
    pub random: u64,
    pub rules: &'a Rules,
    /// For messages that name workers.
    pub workers: &'a dyn Workers,
    pub evaluator: &'a dyn Evaluator,
}

impl Ctx<'_> {
    fn clocks(&self) -> Clocks {
        Clocks { now: self.now, heard: self.heard, verdicts_from: self.verdicts_from }
    }
}

/// Makes a new job and starts what needs nothing. The job comes back as it is after its first changes. One with a `group`
/// (see [`group_of`]) waits until it is admitted.
pub fn submit(
    id: JobId,
    definition: Arc<Definition>,
    input: Arc<Value>,
    group: Option<Arc<str>>,
    by: Arc<str>,
    ctx: &Ctx<'_>,
) -> (Job, Changes) {
    start(blank(id, definition, input, group, by, ctx), None, ctx)
}

/// The same for a job that may have been there before, in a time that is lost: the database was restored `at` this time.
pub fn submit_in_doubt(
    id: JobId,
    definition: Arc<Definition>,
    input: Arc<Value>,
    group: Option<Arc<str>>,
    by: Arc<str>,
    at: Time,
    ctx: &Ctx<'_>,
) -> (Job, Changes) {
    start(blank(id, definition, input, group, by, ctx), Some(at), ctx)
}

/// The same for a job that another one begins; in `doubt` or not.
pub fn bear(birth: &Birth, doubt: Option<Time>, ctx: &Ctx<'_>) -> (Job, Changes) {
    let (definition, input, group) = (birth.task.definition.clone(), birth.input.clone(), birth.group.clone());
    let blank = blank(birth.id, definition, input, group, birth.submitted_by.clone(), ctx);
    start(Job { parent: birth.parent, hook_of: birth.hook_of, ..blank }, doubt, ctx)
}

fn start(mut job: Job, doubt: Option<Time>, ctx: &Ctx<'_>) -> (Job, Changes) {
    let mut draft = Draft::new(&job, *ctx);
    draft.touch_all();
    // Before anything of it begins: a child job could not be taken back.
    if let Some(at) = doubt {
        draft.born_in_doubt(at);
    }
    draft.line_up();
    draft.release_ready();
    let changes = draft.finish();
    job.absorb(&changes);
    (job, changes)
}

/// A job of which nothing has happened yet.
fn blank(
    id: JobId,
    definition: Arc<Definition>,
    input: Arc<Value>,
    group: Option<Arc<str>>,
    submitted_by: Arc<str>,
    ctx: &Ctx<'_>,
) -> Job {
    let steps: Vec<Step> = definition.steps().iter().map(|def| Step::new(def.needs.len(), ctx.now)).collect();
    let header = Header {
        version: 0,
        state: JobState::Pending,
        counts: Counts::of(&steps),
        admitted_at: None,
        started_at: None,
        ended_at: None,
        error: None,
        cancel: None,
        // While it waits for its group the clock stands still.
        timeout_at: definition.timeout.filter(|_| group.is_none()).map(|d| ctx.now + d),
        expect_at: definition.expect.filter(|_| group.is_none()).map(|d| ctx.now + d),
        late_at: None,
        notices: 0,
        held_since: None,
        strays: false,
        recovered: false,
        restored_at: None,
        unborn: Vec::new(),
        check: None,
    };
    let (parent, hook_of, created_at) = (None, None, ctx.now);
    Job { id, parent, hook_of, definition, input, group, submitted_by, created_at, header, steps }
}

/// Decides what `event` does to `job`.
pub fn apply(job: &Job, event: &Event, ctx: &Ctx<'_>) -> Result<Changes, Rejection> {
    let mut draft = Draft::new(job, *ctx);
    // A stale voice is told so whatever became of the job; everyone else hears that the job is over.
    if let Some(ticket) = event.ticket() {
        draft.known(ticket.step)?;
        if !matches!(event, Event::Offer { .. } | Event::Adopted { .. }) && !is_believed(event) {
            draft.current(ticket)?;
        }
    }
    if job.is_final() && !(planted::is(Bug::VerdictTurns) && is_believed(event)) {
        return Err(Rejection::JobFinal(job.header.state));
    }
    match event {
        Event::Offer { ticket, worker, epoch } => draft.offer(*ticket, *worker, *epoch)?,
        Event::Refused { ticket, reason } => draft.refused(*ticket, reason)?,
        Event::OfferLost { ticket, epoch } => draft.offer_lost(*ticket, *epoch)?,
        Event::Accepted { ticket, epoch } => draft.accepted(*ticket, *epoch)?,
        Event::SecretMissing { ticket, epoch, why } => draft.secret_missing(*ticket, *epoch, why)?,
        Event::Ended { ticket, report } => draft.ended(*ticket, report)?,
        Event::LinkLost { ticket, epoch } => draft.link_lost(*ticket, *epoch)?,
        Event::ServerLost { ticket, epoch, since } => draft.server_lost(*ticket, *epoch, *since)?,
        Event::Reattached { ticket, epoch } => draft.reattached(*ticket, *epoch)?,
        Event::Adopted { ticket, worker, epoch } => draft.adopted(*ticket, *worker, *epoch)?,
        Event::Unlisted { of, unlisted } => draft.unlisted(*of, *unlisted)?,
        Event::Unborn(unborn) => draft.unborn(unborn)?,
        Event::Gone { ticket, epoch, loss } => draft.gone(*ticket, *epoch, loss)?,
        Event::FellSilent { ticket, silent, by } => draft.fell_silent(*ticket, *silent, by.as_deref())?,
        Event::HeardAgain { ticket } => draft.heard_again(*ticket)?,
        Event::NoReturn { ticket, epoch, why } => draft.no_return(*ticket, *epoch, *why)?,
        Event::MoreTime { ticket, epoch, reason } => draft.more_time(*ticket, *epoch, reason)?,
        Event::WorkerRemoved { ticket, by } => draft.worker_removed(*ticket, by)?,
        Event::Resolve(order) => draft.resolve(order)?,
        Event::Unmatched { step, missing } => draft.unmatched(*step, missing)?,
        Event::Admit { reason } => draft.admitted(reason)?,
        Event::TurnAway(failure) => draft.turned_away(failure)?,
        Event::Cancel { by, force } => draft.cancel_asked(by, *force)?,
        Event::Approve { step, by, comment } => draft.approve(*step, by, comment)?,
        Event::Reject { step, by, reason } => draft.reject(*step, by, reason)?,
        Event::ChildEnded { step, child, end, strays } => draft.child_ended(*step, *child, end, *strays)?,
        Event::ChildHeld { step, child, held } => draft.child_held(*step, *child, *held)?,
        Event::ChildMissing { step, child } => draft.child_missing(*step, *child)?,
        Event::Restored { at } => draft.restored(*at)?,
        Event::Check { step } => draft.check(*step)?,
        Event::CheckJob => draft.check_job(),
        Event::Poisoned { step, message } => draft.poisoned(*step, message)?,
    }
    draft.release_ready();
    Ok(draft.finish())
}

/// Whether a planted bug takes this event without looking whose it is.
fn is_believed(event: &Event) -> bool {
    matches!(event, Event::Ended { .. }) && (planted::is(Bug::StaleEndCounts) || planted::is(Bug::VerdictTurns))
}

impl Draft<'_> {
    fn known(&self, ix: StepIx) -> Result<(), Rejection> {
        if ix.get() < self.job.steps.len() { Ok(()) } else { Err(Rejection::NoSuchStep) }
    }

    /// Whether this ticket speaks for the step now.
    fn current(&self, ticket: Ticket) -> Result<(), Rejection> {
        match self.step(ticket.step).state.ticket() {
            Some((attempt, _)) if attempt != ticket.attempt => Err(Rejection::Stale(Stale::Attempt)),
            Some((_, fence)) if fence != ticket.fence => Err(Rejection::Stale(Stale::Fence)),
            Some(_) => Ok(()),
            None => Err(Rejection::Stale(Stale::Attempt)),
        }
    }

    /// The poison event's step fails; where the event named none, the job is cancelled around it.
    fn poisoned(&mut self, step: Option<StepIx>, message: &str) -> Result<(), Rejection> {
        let Some(ix) = step else {
            return self.cancel_asked("the server, after an internal error", true);
        };
        self.known(ix)?;
        if let (State::Delegated(_), Some(fan)) = (&self.step(ix).state, self.step(ix).fan) {
            // It ends with its items.
            let open: Vec<StepIx> = fan.items().filter(|&item| !self.step(item).state.is_final()).collect();
            return open.into_iter().try_for_each(|item| self.poisoned(Some(item), message));
        }
        let failure = Failure::new(FailureKind::Internal, message);
        match self.step(ix).state.name() {
            StateName::Pending | StateName::Queued | StateName::Running | StateName::Recovering => {
                self.call_child_off(ix, false);
                // It has some time to end, and nobody waits for it.
                self.header.strays |= self.step(ix).state.child().is_some();
                self.give_up(ix, &failure);
                self.drop_offer(ix);
                self.end(ix, Verb::Fail, End::Failed, Some(failure), message)
            }
            StateName::Waiting | StateName::Held => self.end(ix, Verb::Cancel, End::Cancelled, Some(failure), message),
            StateName::Cancelling => {
                let timed_out =
                    matches!(&self.step(ix).state, State::Cancelling(c) if c.cause == StopCause::StepTimeout);
                self.attempt_lost(ix, Some(failure.clone()), false);
                let end = if timed_out { End::Failed } else { End::Cancelled };
                self.end(ix, Verb::CancelForce, end, Some(failure), message)
            }
            state @ (StateName::Success | StateName::Failed | StateName::Cancelled | StateName::Skipped) => {
                Err(Rejection::NotNow { state, wanted: "fail" })
            }
        }
    }

    /// Closes a live attempt whose step fails by no fault of its own; its worker is told to end it.
    fn give_up(&mut self, ix: StepIx, failure: &Failure) {
        if let Some(live) = self.step(ix).state.live().copied() {
            self.attempt_lost(ix, Some(failure.clone()), false);
            let ticket = Ticket { step: ix, attempt: live.attempt, fence: live.fence };
            let (mode, cause, grace) = (StopMode::Graceful, StopCause::Cancel, self.def(ix).stop.grace);
            self.effect(Effect::Stop { ticket, worker: live.worker, mode, cause, grace });
        }
    }

    /// Moves a step to a final state.
    fn end(&mut self, ix: StepIx, verb: Verb, end: End, error: Option<Failure>, reason: &str) -> Result<(), Rejection> {
        if let (State::Held(_), Verb::Cancel | Verb::Reject | Verb::Expire) = (&self.step(ix).state, verb) {
            // Nobody waits any longer for word of an attempt that it may have.
            self.attempt_lost(ix, error.clone(), false);
        }
        self.shift(ix, verb, State::Final(end), reason)?;
        self.step_mut(ix).error = error;
        Ok(())
    }
}

impl Event {
    /// The attempt that this event speaks of, if it is about one.
    pub fn ticket(&self) -> Option<Ticket> {
        match self {
            Event::Offer { ticket, .. }
            | Event::Refused { ticket, .. }
            | Event::OfferLost { ticket, .. }
            | Event::Accepted { ticket, .. }
            | Event::SecretMissing { ticket, .. }
            | Event::Ended { ticket, .. }
            | Event::LinkLost { ticket, .. }
            | Event::ServerLost { ticket, .. }
            | Event::Reattached { ticket, .. }
            | Event::Adopted { ticket, .. }
            | Event::Gone { ticket, .. }
            | Event::FellSilent { ticket, .. }
            | Event::HeardAgain { ticket }
            | Event::NoReturn { ticket, .. }
            | Event::MoreTime { ticket, .. }
            | Event::WorkerRemoved { ticket, .. } => Some(*ticket),
            Event::Unlisted { .. }
            | Event::Unborn(_)
            | Event::Unmatched { .. }
            | Event::Resolve(_)
            | Event::Admit { .. }
            | Event::TurnAway(_)
            | Event::Cancel { .. }
            | Event::Approve { .. }
            | Event::Reject { .. }
            | Event::ChildEnded { .. }
            | Event::ChildHeld { .. }
            | Event::ChildMissing { .. }
            | Event::Restored { .. }
            | Event::Check { .. }
            | Event::CheckJob
            | Event::Poisoned { .. } => None,
        }
    }
}
