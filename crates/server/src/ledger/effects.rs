//! What a change means outside the rows: the dispatcher's queue, what workers hold, and messages to send.

use std::cmp::Reverse;
use std::time::Duration;

use engine::definition::StepDef;
use engine::event::{Effect, Ticket};
use engine::state::{StopCause, StopMode};
use engine::{AttemptId, Clocks, Event, Job, JobId, State, Step, StepIx, Time, WorkerId};
use planted::Bug;
use protocol::attempt as wire;
use protocol::link::ServerMessage;
use store::{Store, StoreError};

use crate::dispatch::{Place, Queue, QueueKey, Roster, TagSet};

use super::core::Core;
use super::round::{Round, wire_ticket};

/// Keeps queue and roster in step with one step's change.
#[expect(clippy::too_many_arguments, reason = "two indexes, one step before and after, and the time")]
pub(super) fn reindex(
    queue: &mut Queue,
    roster: &mut Roster,
    place: Place,
    def: &StepDef,
    job: &Job,
    old: &Step,
    new: &Step,
    now: Time,
) {
    let (before, after) = (holder(&old.state), holder(&new.state));
    if before != after {
        let leaks = planted::is(Bug::SlotLeaks) && new.state.name() == engine::StateName::Failed;
        if let Some((worker, attempt)) = before.filter(|_| !leaks) {
            roster.release(worker, attempt);
        }
        if let Some((worker, attempt)) = after {
            roster.hold(worker, attempt, place);
        }
    }
    if matches!(old.state, State::Queued(_)) {
        queue.remove(place);
    }
    enter(queue, place, def, job, new, now);
}

/// Puts a step into the dispatcher's queue if it may be offered now.
pub(super) fn enter(queue: &mut Queue, place: Place, def: &StepDef, job: &Job, step: &Step, now: Time) {
    let State::Queued(queued) = &step.state else { return };
    if queued.offer.is_none() && queued.not_before.is_none_or(|at| at <= now) {
        let key = QueueKey { priority: Reverse(job.definition.priority), since: queued.since, place };
        queue.insert(key, TagSet::new(def.tags.iter().cloned()), step.avoid);
    }
}

/// Who has it in hand, by offer or by attempt.
pub(super) fn holder(state: &State) -> Option<(WorkerId, AttemptId)> {
    let live = state.live().map(|l| (l.worker, l.attempt));
    live.or_else(|| state.offer().map(|o| (o.worker, o.attempt)))
}

impl<S: Store> Core<S> {
    /// Turns an effect into a message for after the commit. A worker that is away gets it by its next hello instead.
    pub(super) fn effect(&mut self, job: JobId, effect: &Effect, round: &mut Round) {
        let (worker, message) = match *effect {
            Effect::Offer { step, offer } => {
                let Some(cached) = self.cache.get(job) else { return };
                let spec = super::attempt_spec::build(&cached.job, step, &offer, self.config.rules.lease());
                let message = ServerMessage::Offer { number: 0, spec: Box::new(spec) };
                if planted::is(Bug::OfferedToTwo)
                    && let Some(other) = self.roster.iter().find(|(id, w)| *id != offer.worker && w.has_room())
                    && let Some(link) = other.1.link
                {
                    round.outgoing.push((Some(job), link, message.clone()));
                }
                (offer.worker, message)
            }
            Effect::Withdraw { ticket, worker } => (worker, ServerMessage::Withdraw { ticket: wire(ticket) }),
            Effect::Go { ticket, worker } => {
                self.log_begins(worker, ticket.attempt);
                (worker, ServerMessage::Go { number: 0, ticket: wire(ticket) })
            }
            Effect::Stop { ticket, worker, mode, cause, grace } => {
                let reason = match cause {
                    StopCause::Cancel | StopCause::JobTimeout | StopCause::RunnerStale { .. } => {
                        wire::StopReason::Cancelled
                    }
                    StopCause::StepTimeout => wire::StopReason::Timeout,
                };
                (worker, stop_message(wire(ticket), mode, reason, grace))
            }
            Effect::Forget { ticket, worker } => {
                self.end_recorded(worker, job, wire(ticket), round);
                return;
            }
        };
        if let Some(link) = self.effect_target(worker) {
            if planted::is(Bug::GoBeforeCommit) && matches!(message, ServerMessage::Go { .. }) {
                return self.send(link, message);
            }
            round.outgoing.push((Some(job), link, message));
        }
    }

    /// What a due step is asked: most answer for themselves, a queued one needs to know who is there.
    pub(super) fn check_event(&mut self, job: JobId, step: StepIx, clocks: Clocks) -> Event {
        self.unmatched_event(job, step, clocks).unwrap_or(Event::Check { step })
    }

    fn unmatched_event(&mut self, job: JobId, step: StepIx, clocks: Clocks) -> Option<Event> {
        let cached = self.cache.load(job, &mut self.store, &self.definitions).ok()?;
        let def = cached.job.definition.steps().get(step.get())?;
        let State::Queued(queued) = &cached.job.step(step).state else { return None };
        let patience = match def.unmatched {
            engine::definition::Patience::Default => self.config.rules.unmatched,
            engine::definition::Patience::For(patience) => patience,
            engine::definition::Patience::Forever => return None,
        };
        let wanted = TagSet::new(def.tags.iter().cloned());
        let window = self.config.rules.recovery_window;
        let alone = self.roster.unmatched_since(&wanted, clocks.heard, window)?.max(queued.heard_since);
        if queued.offer.is_some() || !clocks.may_judge(alone + patience) {
            return None;
        }
        Some(Event::Unmatched { step, missing: self.lack(&wanted) })
    }

    /// Why nobody can run a step with these tags.
    fn lack(&self, wanted: &TagSet) -> String {
        let unwilling = self.roster.unwilling(wanted);
        if !unwilling.is_empty() {
            let who = engine::workers::told(&unwilling);
            return format!("it needs {wanted}; the workers that have them take no new work: {who}");
        }
        let (missing, willing) = (self.roster.missing(wanted), self.roster.willing());
        let lack = if missing.is_empty() { "all of these together".to_owned() } else { missing.join(", ") };
        format!("it needs {wanted}; of {willing} workers that take new work none has {lack}")
    }

    /// Queue and roster, read again from the rows.
    pub(super) fn rebuild_index(&mut self) -> Result<(), StoreError> {
        self.queue.clear();
        self.roster.clear_held();
        for entry in self.store.queued()? {
            let place = Place { job: entry.job, step: entry.ix };
            // A job that cannot be read stays out; its own check says so, in quarantine.
            if let Ok(cached) = self.cache.load(entry.job, &mut self.store, &self.definitions) {
                let (job, step) = (&cached.job, cached.job.step(entry.ix));
                enter(&mut self.queue, place, job.definition.step(entry.ix), job, step, Time::MAX);
            }
        }
        for (job, ix) in self.store.held()? {
            if let Ok(cached) = self.cache.load(job, &mut self.store, &self.definitions)
                && let Some((holder, attempt)) = holder(&cached.job.step(ix).state)
            {
                self.roster.hold(holder, attempt, Place { job, step: ix });
            }
        }
        Ok(())
    }
}

pub(super) fn stop_message(
    ticket: wire::Ticket,
    mode: StopMode,
    reason: wire::StopReason,
    grace: Duration,
) -> ServerMessage {
    let mode = match mode {
        StopMode::Graceful => wire::StopMode::Graceful,
        StopMode::Kill => wire::StopMode::Kill,
    };
    ServerMessage::Stop { ticket, mode, reason, grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) }
}

fn wire(ticket: Ticket) -> wire::Ticket {
    wire_ticket(ticket.attempt, ticket.fence)
}
