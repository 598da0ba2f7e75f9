//! Workers that will not come back, and losses that may be our own fault.

use engine::event::{NoReturn, Ticket};
use engine::{AttemptId, Epoch, Event, State, WorkerId};
use store::Store;
use store::rows::BreakerRow;

use crate::dispatch::Place;

use super::breaker::{Breaker, Found};
use super::core::Core;
use super::losses::Seen;
use super::round::Round;

impl<S: Store> Core<S> {
    /// What it was only offered is taken back; what started is decided without waiting for it.
    pub(super) fn no_return(
        &mut self,
        attempt: AttemptId,
        place: Place,
        epoch: Epoch,
        why: NoReturn,
        round: &mut Round,
    ) {
        match self.ticket_of_live(attempt, place) {
            Some((ticket, _)) => self.about_the_absent(place, &Event::NoReturn { ticket, epoch, why }, round),
            None => self.link_gone(attempt, place, Seen::On(epoch), round),
        }
    }

    /// Ephemeral workers that are cut off: is their machine still there? As often as marks are made is often enough.
    pub(super) fn ask_the_scaler(&mut self, round: &mut Round) {
        if round.listened.is_none() {
            return;
        }
        let scaler = &self.scaler;
        let away = self.roster.iter().filter(|(_, w)| !w.is_connected() && w.ephemeral && !w.left_with_server);
        let gone: Vec<(AttemptId, Place, Epoch)> = away
            .filter(|(id, w)| !w.held.is_empty() && scaler.is_gone(*id))
            .flat_map(|(_, w)| w.held.iter().map(|(attempt, place)| (*attempt, *place, w.epoch)))
            .collect();
        for (attempt, place, epoch) in gone {
            self.no_return(attempt, place, epoch, NoReturn::MachineGone, round);
        }
    }

    /// One more worker is lost: are these so many that the fault may be ours?
    pub(super) fn suspect_ourselves(&mut self, worker: WorkerId, round: &mut Round) {
        let left = self.roster.connected_static();
        let found = self.breaker_in(round).lost(worker, round.clocks.heard, left);
        match found {
            Found::Nothing => {}
            Found::OneMore => self.more_time(worker, round),
            Found::Tripped { lost, of } => self.waits_longer(lost, of, round),
        }
    }

    /// Before this round changes what is thought of ourselves: it may come to nothing.
    fn breaker_in(&mut self, round: &mut Round) -> &mut Breaker {
        round.breaker_before.get_or_insert_with(|| Box::new(self.breaker.clone()));
        &mut self.breaker
    }

    fn waits_longer(&mut self, lost: Vec<WorkerId>, of: usize, round: &mut Round) {
        self.metrics.mass_losses.inc();
        tracing::error!(
            lost = lost.len(),
            of,
            "most workers were lost at once; the server suspects itself, and waits for them twice as long"
        );
        let count = u32::try_from(lost.len()).unwrap_or(u32::MAX);
        let connected = u32::try_from(of).unwrap_or(u32::MAX);
        round.breaker = Some(BreakerRow { tripped_at: round.now, lost: count, connected, ended_at: None });
        for worker in lost {
            self.more_time(worker, round);
        }
    }

    pub(super) fn worker_is_back(&mut self, worker: WorkerId, round: &mut Round) {
        if self.breaker_in(round).back(worker) {
            tracing::info!("half of the workers that were lost at once are back");
            round.breaker_ended = Some(round.now);
        }
    }

    pub(super) fn settle_breaker(&mut self, round: &mut Round) {
        let left = self.roster.connected_static();
        if self.breaker.has_unjudged()
            && let Found::Tripped { lost, of } = self.breaker_in(round).judge(round.clocks.heard, left)
        {
            self.waits_longer(lost, of, round);
        }
        let window = self.config.rules.recovery_window;
        if self.breaker.is_due(round.clocks.heard, window) && self.breaker_in(round).settles(round.clocks.heard, window)
        {
            tracing::warn!("most of the workers that were lost at once did not come back");
            round.breaker_ended = Some(round.now);
        }
    }

    fn more_time(&mut self, worker: WorkerId, round: &mut Round) {
        let Some(known) = self.roster.get(worker) else { return };
        let held: Vec<(AttemptId, Place)> = known.held.iter().map(|(attempt, place)| (*attempt, *place)).collect();
        for (attempt, place) in held {
            let Some((ticket, epoch)) = self.ticket_of_live(attempt, place) else { continue };
            let reason =
                "most workers were lost at the same time: the server suspects itself and waits longer".to_owned();
            self.about_the_absent(place, &Event::MoreTime { ticket, epoch, reason }, round);
        }
    }

    fn ticket_of_live(&mut self, attempt: AttemptId, place: Place) -> Option<(Ticket, Epoch)> {
        let cached = self.cache.load(place.job, &mut self.store, &self.definitions).ok()?;
        let live = match cached.job.state(place.step) {
            state @ (State::Running(_) | State::Recovering(_) | State::Cancelling(_)) => state.live(),
            _ => None,
        };
        let live = live.filter(|live| live.attempt == attempt)?;
        Some((Ticket { step: place.step, attempt, fence: live.fence }, live.epoch))
    }

    fn about_the_absent(&mut self, place: Place, event: &Event, round: &mut Round) {
        if let Err(error) = self.apply(place.job, event, round) {
            tracing::debug!(job = %place.job, step = place.step.0, %error, "nothing changed for an absent worker's step");
        }
    }
}
