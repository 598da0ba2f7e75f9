//! Attempts of child jobs that are not on record any more: the database lost them, and their workers have them. They wait in
//! the rows of their family: whichever server begins the child again, which is the same one then, gives them to it in the
//! same transaction.

use engine::event::Ticket;
use engine::job::Unborn;
use engine::{AttemptId, Epoch, Event, Fence, JobId};
use protocol::link::HeldAttempt;
use store::Store;

use crate::dispatch::LinkId;

use super::amnesia::ATTEMPT_GONE;
use super::core::Core;
use super::round::Round;

/// Open jobs of one family that are told. More are not under way at once, however a task fans out.
const KIN_MAX: usize = 10_000;

impl<S: Store> Core<S> {
    /// Puts an attempt on record of a job that is not there, if that is a child which may yet be begun again.
    pub(super) fn await_birth(&mut self, link: LinkId, held: &HeldAttempt, epoch: Epoch, round: &mut Round) {
        let Some(worker) = self.links.get(&link).map(|known| known.worker) else { return };
        let job = JobId(held.job);
        if self.cache.load(job, &mut self.store, &self.definitions).is_ok() {
            return;
        }
        let (attempt, fence) = (AttemptId(held.ticket.attempt), Fence(held.ticket.fence));
        let unborn = Unborn { job, step: held.step.clone(), attempt, fence, worker, epoch };
        // Any of them may be the one that begins it, or that begins who does.
        for kin in self.open_relatives(job) {
            if let Err(error) = self.apply(kin, &Event::Unborn(unborn.clone()), round) {
                tracing::debug!(%attempt, %job, %kin, %error, "a child job is not waited for");
                continue;
            }
            tracing::warn!(%attempt, %job, step = held.step, "a child job has run that is not on record; it is waited for");
            if self.amnesia.is_none() {
                self.forgotten = Some(ATTEMPT_GONE);
            }
        }
    }

    /// By the rows, and then by what this round has made of them.
    fn open_relatives(&mut self, job: JobId) -> Vec<JobId> {
        let mut kin = match self.store.open_kin(job, KIN_MAX) {
            Ok(kin) => kin,
            Err(error) => {
                self.cache.missed(&error);
                return Vec::new();
            }
        };
        kin.retain(|other| {
            let known = self.cache.load(*other, &mut self.store, &self.definitions);
            *other != job && known.is_ok_and(|cached| !cached.job.is_final())
        });
        kin
    }

    /// The job is begun: what workers have of it is its own, and what they have of those that it may begin is handed down.
    pub(super) fn adopt_unborn(&mut self, parent: JobId, job: JobId, round: &mut Round) {
        for one in self.known_to_ancestors(parent) {
            if one.job == job {
                let step = self.cache.get(job).and_then(|cached| cached.job.find(&one.step));
                if let Some(step) = step {
                    let ticket = Ticket { step, attempt: one.attempt, fence: one.fence };
                    self.adopt_brought(job, ticket, one.worker, one.epoch, round);
                }
            } else if let Err(error) = self.apply(job, &Event::Unborn(one), round) {
                tracing::debug!(%job, %error, "a child of a child is not waited for");
            }
        }
    }

    /// All the way up, also to the job on whose end one follows: a child that is begun may begin the next one before anything is
    /// handed down to it.
    fn known_to_ancestors(&self, parent: JobId) -> Vec<Unborn> {
        let mut all = Vec::new();
        let mut next = self.cache.get(parent);
        while let Some(cached) = next {
            all.extend(cached.job.header.unborn.iter().cloned());
            let above = cached.job.parent.map(|parent| parent.job).or(cached.job.hook_of);
            next = above.and_then(|job| self.cache.get(job));
        }
        all
    }
}
