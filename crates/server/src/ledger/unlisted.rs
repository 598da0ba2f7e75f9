//! Attempts of items whose list is not on record any more: the database lost it, and their workers have them. They wait in
//! the job's own rows: whichever server makes the list again gives them to their items in the same transaction.

use engine::event::Ticket;
use engine::job::Unlisted;
use engine::{AttemptId, Epoch, Event, Fence, JobId, StepIx, WorkerId};
use protocol::link::{HeldAttempt, RefusedCode, ServerMessage};
use store::Store;

use crate::dispatch::{LinkId, Place};

use super::amnesia::{ATTEMPT_GONE, COME_WITH_ALL};
use super::core::Core;
use super::losses::Seen;
use super::round::Round;

impl<S: Store> Core<S> {
    /// Puts an attempt on record that could not be adopted, if its item may yet come up.
    pub(super) fn await_item(&mut self, link: LinkId, held: &HeldAttempt, epoch: Epoch, round: &mut Round) {
        let Some(worker) = self.links.get(&link).map(|known| known.worker) else { return };
        let job = JobId(held.job);
        let item = self.cache.get(job).and_then(|cached| cached.job.unlisted_item(&held.step));
        let Some((of, number)) = item else { return };
        let (attempt, fence) = (AttemptId(held.ticket.attempt), Fence(held.ticket.fence));
        let unlisted = Unlisted { number, attempt, fence, worker, epoch };
        if let Err(error) = self.apply(job, &Event::Unlisted { of, unlisted }, round) {
            return tracing::debug!(%attempt, %job, step = held.step, %error, "an item is not waited for");
        }
        tracing::warn!(%attempt, %job, step = held.step, "an item has run whose list is not on record; it is waited for");
        if self.amnesia.is_none() {
            self.forgotten = Some(ATTEMPT_GONE);
        }
    }

    /// The job has new steps from this place on: of those that are items, workers may have attempts.
    pub(super) fn adopt_unlisted(&mut self, job: JobId, from: usize, round: &mut Round) {
        let Some(cached) = self.cache.get(job) else { return };
        let lists = cached.job.steps.iter().filter_map(|step| Some((step.fan?, &step.unlisted)));
        let new = lists.filter(|(fan, _)| fan.first.get() >= from);
        let listed = new.flat_map(|(fan, all)| {
            all.iter().filter(move |one| one.number < fan.count).map(move |one| (fan.item(one.number), *one))
        });
        let listed: Vec<(StepIx, Unlisted)> = listed.collect();
        for (step, one) in listed {
            let ticket = Ticket { step, attempt: one.attempt, fence: one.fence };
            self.adopt_brought(job, ticket, one.worker, one.epoch, round);
        }
    }

    /// Its step has come up: the attempt that a worker brought before is the step's own.
    pub(super) fn adopt_brought(
        &mut self,
        job: JobId,
        ticket: Ticket,
        worker: WorkerId,
        epoch: Epoch,
        round: &mut Round,
    ) {
        let Ticket { step, attempt, .. } = ticket;
        let epoch = self.roster.get(worker).map_or(epoch, |known| known.epoch.max(epoch));
        if let Err(error) = self.apply(job, &Event::Adopted { ticket, worker, epoch }, round) {
            return tracing::debug!(%attempt, %error, "an attempt that is not on record stays so");
        }
        tracing::warn!(%attempt, %job, step = step.0, "an attempt that was not on record is adopted");
        match self.effect_target(worker) {
            // It may have put it away by now.
            Some(link) => self.ask_again(link, round),
            // If another server has its link, that one asks.
            None => self.link_gone(attempt, Place { job, step }, Seen::UpTo(epoch), round),
        }
    }

    /// The worker on this link is to come again with all that it has.
    pub(super) fn ask_again(&mut self, link: LinkId, round: &mut Round) {
        let Some(known) = self.links.get(&link).filter(|_| !round.hang_up.contains(&link)) else { return };
        let code = if known.keeps { RefusedCode::Recall } else { RefusedCode::GoingAway };
        round.outgoing.push((None, link, ServerMessage::Refused { code, message: COME_WITH_ALL.to_owned() }));
        round.hang_up.push(link);
    }
}
