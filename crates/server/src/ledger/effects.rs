//! What a change means outside the rows: the dispatcher's queue, what workers hold, and messages to send.

use std::cmp::Reverse;
use std::time::Duration;

use engine::definition::Ability;
use engine::event::{Effect, Ticket};
use engine::state::{Queued, StopCause, StopMode};
use engine::{AttemptId, Clocks, Event, Job, JobId, State, Step, StepIx, Time, WorkerId};
use planted::Bug;
use protocol::attempt as wire;
use protocol::link::ServerMessage;
use store::{Store, StoreError};

use crate::dispatch::{Place, Queue, QueueKey, Roster, TagSet, Whose};

use super::cache::LoadError;
use super::core::Core;
use super::notice::{LOOK_EVERY, Noticed};
use super::round::{Round, wire_ticket};

/// What is derived from steps' rows: who may be offered, now or later, and who has what in hand.
pub(super) struct Indexes<'a> {
    pub queue: &'a mut Queue,
    pub roster: &'a mut Roster,
    pub noticed: &'a mut Noticed,
}

impl Indexes<'_> {
    /// Keeps them in step with the change of one step of `job`, which is still as it was.
    pub(super) fn change(&mut self, job: &Job, ix: StepIx, new: &Step, now: Time) {
        let place = Place { job: job.id, step: ix };
        // An item of a fan-out may be there only from now on.
        let old = job.steps.get(ix.get()).map(|old| &old.state);
        let (before, after) = (old.and_then(holder), holder(&new.state));
        if before != after {
            let leaks = planted::is(Bug::SlotLeaks) && new.state.name() == engine::StateName::Failed;
            if let Some((worker, attempt)) = before.filter(|_| !leaks) {
                self.roster.release(worker, attempt);
                self.queue.release(attempt);
            }
            if let Some((worker, attempt)) = after {
                self.hold(job, ix, worker, attempt);
            }
        }
        if matches!(old, Some(State::Queued(_))) {
            self.queue.remove(place);
        }
        self.enter(job, ix, new, now);
    }

    /// The worker has this attempt of a step.
    pub(super) fn hold(&mut self, job: &Job, ix: StepIx, worker: WorkerId, attempt: AttemptId) {
        self.roster.hold(worker, attempt, Place { job: job.id, step: ix });
        self.queue.hold(attempt, Whose::of(job));
    }

    /// Puts a step into the dispatcher's queue if it may be offered now. One that may be later is looked at then: its own
    /// timer may be another server's to see to, and tells nobody.
    pub(super) fn enter(&mut self, job: &Job, ix: StepIx, step: &Step, now: Time) {
        let State::Queued(Queued { offer: None, not_before, since, .. }) = step.state else { return };
        if let Some(at) = not_before.filter(|at| *at > now) {
            return self.noticed.look_at(job.id, at);
        }
        let place = Place { job: job.id, step: ix };
        let key = QueueKey { priority: Reverse(job.definition.priority), since, place };
        let def = job.definition.step(step.item.as_ref().map_or(ix, |item| item.of));
        self.queue.insert(key, TagSet::new(def.wanted()), step.avoid, Whose::of(job));
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
                let mut spec = super::attempt_spec::build(&cached.job, step, &offer, &self.config);
                if planted::is(Bug::SecretInSpec) {
                    let values = self.secrets.of_step(&cached.job.def(step).secrets).unwrap_or_default();
                    spec.env.extend(values.into_iter().map(|(name, value)| (name, value.expose().to_owned())));
                }
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
                    StopCause::StepTimeout => wire::StopReason::Timeout,
                    StopCause::Cancel | StopCause::JobTimeout => wire::StopReason::Cancelled,
                    StopCause::Sibling | StopCause::RunnerStale { .. } => wire::StopReason::Cancelled,
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
    pub(super) fn check_event(&mut self, job: JobId, step: StepIx, round: &mut Round) -> Event {
        let special = self.unmatched_event(job, step, round.clocks).or_else(|| self.child_event(job, step, round));
        special.unwrap_or(Event::Check { step })
    }

    fn unmatched_event(&mut self, job: JobId, step: StepIx, clocks: Clocks) -> Option<Event> {
        // Who was here may be what is lost with commits: whoever was has its window to come back.
        if self.amnesia.is_some() || self.forgotten.is_some() {
            return None;
        }
        let cached = self.cache.load(job, &mut self.store, &self.definitions).ok()?;
        let State::Queued(queued) = &cached.job.steps.get(step.get())?.state else { return None };
        let def = cached.job.def(step);
        let patience = match def.unmatched {
            engine::definition::Patience::Default => self.config.rules.unmatched,
            engine::definition::Patience::For(patience) => patience,
            engine::definition::Patience::Forever => return None,
        };
        let wanted = TagSet::new(def.wanted());
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
        let (tags, can) = Ability::parted(missing.iter().map(String::as_str));
        let lack = match (tags.is_empty(), can.is_empty()) {
            (true, true) => "has all of these together".to_owned(),
            (false, true) => format!("has {}", tags.join(", ")),
            (true, false) => format!("can {}: one of an earlier version is to be upgraded", can.join(" and ")),
            (false, false) => format!("has {}, and none can {}", tags.join(", "), can.join(" and ")),
        };
        format!("it needs {wanted}; of {willing} workers that take new work none {lack}")
    }

    /// Queue and roster, read again from the rows.
    pub(super) fn rebuild_index(&mut self) -> Result<(), StoreError> {
        self.queue.clear();
        self.queue.clear_held();
        self.roster.clear_held();
        self.groups.doubt();
        for entry in self.store.queued()? {
            match self.cache.load(entry.job, &mut self.store, &self.definitions) {
                Ok(cached) => {
                    let mut indexes =
                        Indexes { queue: &mut self.queue, roster: &mut self.roster, noticed: &mut self.noticed };
                    match cached.job.steps.get(entry.ix.get()) {
                        Some(step) => indexes.enter(&cached.job, entry.ix, step, self.tick.now),
                        // An item whose list was lost between the two reads.
                        None => indexes.noticed.look_at(entry.job, self.tick.now),
                    }
                }
                Err(error) => self.not_read(entry.job, &error),
            }
        }
        for (job, ix) in self.store.held()? {
            match self.cache.load(job, &mut self.store, &self.definitions) {
                Ok(cached) => {
                    if let Some((holder, attempt)) = holder(cached.job.state(ix)) {
                        let mut indexes =
                            Indexes { queue: &mut self.queue, roster: &mut self.roster, noticed: &mut self.noticed };
                        indexes.hold(&cached.job, ix, holder, attempt);
                    }
                }
                Err(error) => self.not_read(job, &error),
            }
        }
        Ok(())
    }

    /// Where the database was away it is read again soon: nobody else may have a word for it. A job that can never be
    /// read stays out; its own check says so, in quarantine.
    pub(super) fn not_read(&mut self, job: JobId, error: &LoadError) {
        if let LoadError::Store(StoreError::Unavailable { .. }) = error {
            self.noticed.look_at(job, self.tick.now + LOOK_EVERY);
        }
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
