//! Slots that are held by what may still run: a job that is over, and an attempt of it, or of a job that it began, that was
//! given up without proof. It holds the slot until its end is certain, or somebody says so; for a day at most.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::definition::{OnDisconnect, StepDef, Work};
use engine::event::{About, AttemptNews};
use engine::state::Ground;
use engine::{AttemptId, Changes, JobId, StepIx, Time};
use planted::Bug;
use store::{Store, StoreError};

use super::cache::LoadError;
use super::core::Core;
use super::round::Round;

/// Jobs that one job began of which it is asked whether something of them still runs.
const CHILDREN_MAX: usize = 10_000;

/// Jobs that are remembered to be over with all that they left.
const SETTLED_MAX: usize = 100_000;

/// A child that is called off, and that its parent does not wait for, is looked at so often.
const CHILD_LOOK: Duration = Duration::from_secs(10);

/// When an attempt of this step that was given up then, without proof, holds no slot any more: after its window where its lease is
/// over by then or its effects allow a copy beside it, and else after the longest that any may.
pub fn slot_held_until(def: &StepDef, given_up_at: Time, window: Duration, longest: Duration) -> Time {
    let ground = Ground::of_silence(def.effects, def.on_disconnect == OnDisconnect::Stop);
    given_up_at + if ground.is_some() { window.min(longest) } else { longest }
}

impl<S: Store> Core<S> {
    /// What is given up now may be known to be over: a worker that has it, and that it was not given to, has said so before. The
    /// verdict stands, and the doubt does not come back.
    pub(super) fn keep_what_is_certain(&mut self, changes: &mut Changes) {
        for attempt in changes.attempts.iter_mut().filter(|attempt| attempt.ended_at.is_some() && !attempt.confirmed) {
            let row = self.store.reader().attempt(attempt.live.attempt).inspect_err(|error| self.cache.missed(error));
            if !matches!(row, Ok(Some(row)) if row.confirmed) {
                continue;
            }
            attempt.confirmed = true;
            let given_up = attempt.step;
            changes.notes.retain(|note| {
                !matches!(note.about, About::Attempt { step, what: AttemptNews::Unconfirmed, .. } if step == given_up)
            });
        }
    }

    /// Until when this job, which is over, holds its slot by what may still run of it; none if nothing may.
    pub(super) fn doubt_until(&mut self, job: JobId, round: &Round) -> Result<Option<Time>, StoreError> {
        if self.groups.settled.contains(&job) || planted::is(Bug::SlotFreedAtVerdict) {
            return Ok(None);
        }
        let until = self.stray_until(job, round)?.filter(|until| *until > round.now);
        if until.is_none() && !round.touches(job) && round.over_for_certain().next().is_none() {
            if self.groups.settled.len() >= SETTLED_MAX {
                self.groups.settled.clear();
            }
            self.groups.settled.insert(job);
        }
        Ok(until)
    }

    /// The longest that anything of it, or of what it began, counts.
    fn stray_until(&mut self, id: JobId, round: &Round) -> Result<Option<Time>, StoreError> {
        let (open, strays, begins) = match self.cache.load(id, &mut self.store, &self.definitions) {
            Ok(cached) => {
                let begins = cached.job.definition.steps().iter().any(|step| matches!(step.work, Work::Child(_)));
                (!cached.job.header.state.is_final(), cached.job.header.strays, begins)
            }
            Err(LoadError::Store(error @ StoreError::Unavailable { .. })) => return Err(error),
            // Nobody could end the doubt.
            Err(LoadError::NotFound | LoadError::Store(_)) => return Ok(None),
        };
        if open {
            return Ok(Some(round.now + CHILD_LOOK));
        }
        if !strays {
            return Ok(None);
        }
        let own = self.given_up(id, round)?;
        let mut longest = own.into_iter().filter_map(|(step, at)| self.counts_until(id, step, at)).max();
        if begins {
            for child in self.store.reader().children(id, CHILDREN_MAX)? {
                longest = longest.max(self.stray_until(child, round)?);
            }
        }
        Ok(longest)
    }

    /// The job's attempts that were given up without proof, with the time: by the rows, and by what this round has changed.
    fn given_up(&self, job: JobId, round: &Round) -> Result<Vec<(StepIx, Time)>, StoreError> {
        let rows = self.store.reader().unconfirmed(job)?;
        let stored = rows.into_iter().filter_map(|row| Some((row.id, row.ix, row.ended_at?)));
        let stored: Vec<(AttemptId, StepIx, Time)> = stored.filter(|(id, ..)| !round.writes_attempt(*id)).collect();
        let over: BTreeSet<AttemptId> = round.over_for_certain().collect();
        let all = stored.into_iter().chain(round.given_up_of(job));
        Ok(all.filter(|(id, ..)| !over.contains(id)).map(|(_, step, at)| (step, at)).collect())
    }

    /// When an attempt that was given up then counts no more.
    fn counts_until(&self, job: JobId, step: StepIx, given_up_at: Time) -> Option<Time> {
        let job = &self.cache.get(job)?.job;
        let def = (step.get() < job.steps.len()).then(|| job.def(step))?;
        Some(slot_held_until(def, given_up_at, self.config.rules.recovery_window, self.config.doubt_max))
    }

    /// From the first minute on: somebody must know that a slot is held by what nobody can see.
    pub(super) fn alarm_of_stray_slots(&mut self, round: &Round) -> Result<(), StoreError> {
        let mut held = BTreeSet::new();
        for (group, job) in self.store.reader().stray_slots(round.now - self.config.doubt_max)? {
            let Some(until) = self.doubt_until(job, round)? else { continue };
            held.insert(job);
            if self.groups.alarmed.insert(job) {
                tracing::error!(
                    job_id = %job,
                    group,
                    free_in_secs = until.since(round.now).as_secs(),
                    "a concurrency slot is held by an attempt that was given up and may still run; `bowline why` names it, \
                     and `bowline resolve --confirm-dead` frees the slot"
                );
            }
        }
        self.metrics.slots_in_doubt.set(i64::try_from(held.len()).unwrap_or(i64::MAX));
        self.groups.alarmed = held;
        Ok(())
    }
}
