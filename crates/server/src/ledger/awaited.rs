//! Attempts of items whose list is not on record any more: the database lost it, and their workers have them. They cannot
//! be adopted before the list is made again, and nobody else may get them when it is.

use engine::event::Ticket;
use engine::{AttemptId, Epoch, Event, Fence, JobId, WorkerId};
use protocol::link::{HeldAttempt, RefusedCode, ServerMessage};
use store::Store;

use crate::dispatch::{LinkId, Place};

use super::amnesia::COME_WITH_ALL;
use super::core::Core;
use super::losses::Seen;
use super::round::Round;

/// More than that would be a list of strangers without end; then none is waited for.
const AWAITED_MAX: usize = 20_000;

/// An attempt that waits for its step.
#[derive(Debug)]
pub(super) struct Awaited {
    step: String,
    attempt: AttemptId,
    fence: Fence,
    worker: WorkerId,
    epoch: Epoch,
}

impl<S: Store> Core<S> {
    /// Remembers an attempt that could not be adopted, if its step may yet come up.
    pub(super) fn await_item(&mut self, link: LinkId, held: &HeldAttempt, epoch: Epoch) {
        let Some(worker) = self.links.get(&link).map(|known| known.worker) else { return };
        let job = JobId(held.job);
        let comes_up = self.cache.get(job).is_some_and(|cached| cached.job.awaits_item(&held.step));
        if !comes_up || self.awaited.values().map(Vec::len).sum::<usize>() >= AWAITED_MAX {
            return;
        }
        let (attempt, fence) = (AttemptId(held.ticket.attempt), Fence(held.ticket.fence));
        let all = self.awaited.entry(job).or_default();
        all.retain(|known| known.attempt != attempt);
        all.push(Awaited { step: held.step.clone(), attempt, fence, worker, epoch });
        tracing::warn!(%attempt, %job, step = held.step, "an item has run whose list is not on record; it is waited for");
    }

    /// Items of this job have come up: those that workers have are theirs.
    pub(super) fn adopt_awaited(&mut self, job: JobId, round: &mut Round) {
        let Some(all) = self.awaited.remove(&job) else { return };
        for one in all {
            let Some(cached) = self.cache.get(job) else { return };
            match cached.job.find(&one.step) {
                Some(step) => self.adopt_item(Place { job, step }, &one, round),
                None if cached.job.awaits_item(&one.step) => self.awaited.entry(job).or_default().push(one),
                None => {}
            }
        }
    }

    fn adopt_item(&mut self, place: Place, one: &Awaited, round: &mut Round) {
        let epoch = self.roster.get(one.worker).map_or(one.epoch, |worker| worker.epoch);
        let ticket = Ticket { step: place.step, attempt: one.attempt, fence: one.fence };
        let event = Event::Adopted { ticket, worker: one.worker, epoch };
        if let Err(error) = self.apply(place.job, &event, round) {
            return tracing::debug!(attempt = %one.attempt, %error, "an attempt that is not on record stays so");
        }
        tracing::warn!(attempt = %one.attempt, job = %place.job, step = one.step, "an item that was not on record is adopted");
        match self.effect_target(one.worker) {
            // It may have put it away by now.
            Some(link) if !round.hang_up.contains(&link) => {
                let (code, message) = (RefusedCode::Recall, COME_WITH_ALL.to_owned());
                round.outgoing.push((None, link, ServerMessage::Refused { code, message }));
                round.hang_up.push(link);
            }
            Some(_) => {}
            None => self.link_gone(one.attempt, place, Seen::UpTo(epoch), round),
        }
    }
}
