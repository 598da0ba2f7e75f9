//! Attempts of child jobs that are not on record any more: the database lost them, and their workers have them. They cannot
//! be adopted before the job is made again, which is the same one then, and nobody else may get them when it is.

use std::collections::BTreeMap;

use engine::event::Ticket;
use engine::{AttemptId, Epoch, Event, Fence, JobId, WorkerId};
use protocol::link::HeldAttempt;
use store::Store;

use crate::dispatch::{LinkId, Place};

use super::amnesia::ATTEMPT_GONE;
use super::core::Core;
use super::losses::Seen;
use super::round::Round;

/// More than that would be a list of strangers without end; then none is waited for.
const AWAITED_MAX: usize = 20_000;

/// The characters of an id that a whole family of jobs shares.
const FIRST_HALF: usize = "01234567-89ab-cdef".len();

/// Jobs of one family that are looked at for one that is open; the outermost comes first.
const KIN_MAX: usize = 100;

/// By the job that they wait for.
pub(super) type Unborn = BTreeMap<JobId, Vec<Awaited>>;

/// An attempt that waits for its job.
#[derive(Debug)]
pub(super) struct Awaited {
    step: String,
    attempt: AttemptId,
    fence: Fence,
    worker: WorkerId,
    epoch: Epoch,
}

impl<S: Store> Core<S> {
    /// Remembers an attempt of a job that is not there, if that is a child which may yet be begun again.
    pub(super) fn await_birth(&mut self, link: LinkId, held: &HeldAttempt, epoch: Epoch) {
        let Some(worker) = self.links.get(&link).map(|known| known.worker) else { return };
        let job = JobId(held.job);
        let there = self.cache.load(job, &mut self.store, &self.definitions).is_ok();
        let full = self.unborn.values().map(Vec::len).sum::<usize>() >= AWAITED_MAX;
        if there || full || !self.may_be_born(job) {
            return;
        }
        let (attempt, fence) = (AttemptId(held.ticket.attempt), Fence(held.ticket.fence));
        let all = self.unborn.entry(job).or_default();
        all.retain(|known| known.attempt != attempt);
        all.push(Awaited { step: held.step.clone(), attempt, fence, worker, epoch });
        tracing::warn!(%attempt, %job, step = held.step, "a child job has run that is not on record; it is waited for");
        if self.amnesia.is_none() {
            self.forgotten = Some(ATTEMPT_GONE);
        }
    }

    /// Whether an open job of the same family may begin it again.
    fn may_be_born(&mut self, job: JobId) -> bool {
        let id = job.to_string();
        let kin = id.get(..FIRST_HALF).and_then(|first| self.store.reader().jobs_by_prefix(first, KIN_MAX).ok());
        kin.unwrap_or_default().into_iter().any(|other| {
            let known = self.cache.load(other, &mut self.store, &self.definitions);
            other != job && known.is_ok_and(|cached| !cached.job.is_final())
        })
    }

    /// These jobs are over. What the outermost of a family did not begin by then is not begun any more.
    pub(super) fn await_no_more(&mut self, finished: impl Iterator<Item = JobId>) {
        if self.unborn.is_empty() {
            return;
        }
        for job in finished {
            let outermost = self.cache.get(job).is_some_and(|cached| cached.job.parent.is_none());
            self.unborn.retain(|other, _| *other != job && !(outermost && other.may_be_kin(job)));
        }
    }

    /// The job is there, begun here or elsewhere: what workers have of it is its own.
    pub(super) fn adopt_unborn(&mut self, job: JobId, round: &mut Round) {
        let Some(all) = self.unborn.remove(&job) else { return };
        for one in all {
            let step = self.cache.get(job).and_then(|cached| cached.job.find(&one.step));
            if let Some(step) = step {
                self.adopt_one(Place { job, step }, &one, round);
            }
        }
    }

    fn adopt_one(&mut self, place: Place, one: &Awaited, round: &mut Round) {
        let epoch = self.roster.get(one.worker).map_or(one.epoch, |worker| worker.epoch.max(one.epoch));
        let ticket = Ticket { step: place.step, attempt: one.attempt, fence: one.fence };
        let event = Event::Adopted { ticket, worker: one.worker, epoch };
        if let Err(error) = self.apply(place.job, &event, round) {
            return tracing::debug!(attempt = %one.attempt, %error, "an attempt that is not on record stays so");
        }
        tracing::warn!(attempt = %one.attempt, job = %place.job, step = one.step, "a child job that was not on record is adopted");
        match self.effect_target(one.worker) {
            // It may have put it away by now.
            Some(link) => self.ask_again(link, round),
            None => self.link_gone(one.attempt, place, Seen::UpTo(epoch), round),
        }
    }
}
