//! Links that are gone: a socket that closed, a worker that shows no sign of life, a server that starts.
//!
//! Offers are taken back, attempts get their recovery window; see `engine`'s `LinkLost` and `OfferLost`.

use engine::event::{NoReturn, Ticket};
use engine::{AttemptId, Epoch, Event, State, WorkerId};
use planted::Bug;
use protocol::link::RefusedCode;
use store::{Store, StoreError};

use crate::dispatch::{LinkId, Place};

use super::command::{Command, LinkEvent};
use super::core::Core;
use super::knock::refuse;
use super::round::Round;

impl<S: Store> Core<S> {
    pub(super) fn link_closed(&mut self, link: LinkId, round: &mut Round) {
        let Some(closed) = self.links.remove(&link) else { return self.knocker_left(link) };
        let worker = closed.worker;
        if planted::is(Bug::DeadLinkStays) && !closed.used {
            self.links.insert(link, closed);
            return;
        }
        // The end of an old connection says nothing about a newer one.
        let Some(known) =
            self.roster.get(worker).filter(|w| w.link == Some(link) || planted::is(Bug::OldCloseEndsNewLink))
        else {
            return;
        };
        let held: Vec<(AttemptId, Place)> = known.held.iter().map(|(attempt, place)| (*attempt, *place)).collect();
        let (no_return, counts) = (known.no_reconnect, !known.ephemeral);
        self.roster.update(worker, |w| {
            if let Some(w) = w {
                w.link = None;
                w.left = Some(round.clocks.heard);
                w.left_at = Some(round.now);
            }
        });
        round.left.insert(worker, round.clocks.heard);
        self.metrics.connected.set(i64::try_from(self.roster.connected()).unwrap_or(i64::MAX));
        for (attempt, place) in held {
            if no_return {
                self.no_return(attempt, place, closed.epoch, NoReturn::SaidSo, round);
            } else {
                self.link_gone(attempt, place, Some(closed.epoch), round);
            }
        }
        if counts {
            self.suspect_ourselves(worker, round);
        }
        self.knock_after(link, worker, round);
    }

    /// Ends a link from this side.
    pub(super) fn drop_link(&mut self, link: LinkId, why: &str, round: &mut Round) {
        if let Some(known) = self.links.get(&link) {
            refuse(&known.sender, RefusedCode::GoingAway, why);
        }
        self.link_closed(link, round);
    }

    /// The backstop behind pings: a worker whose socket answers while its agent says nothing is not there.
    pub(super) fn drop_silent_links(&mut self, round: &mut Round) {
        // As often as marks are made is often enough.
        if round.listened.is_none() {
            return;
        }
        let (clocks, timeout) = (round.clocks, self.config.heartbeat_timeout);
        let silent = self.roster.iter().filter(|(_, w)| clocks.may_judge(w.last_beat + timeout));
        let links: Vec<(WorkerId, LinkId)> = silent.filter_map(|(id, w)| Some((id, w.link?))).collect();
        for (worker, link) in links {
            tracing::warn!(%worker, timeout_secs = timeout.as_secs_f64(), "no heartbeat came in time; the link is dropped");
            self.metrics.silent_links.inc();
            self.drop_link(link, "no heartbeat came in time; connect again", round);
        }
    }

    /// Who is known but has no link: rows that say otherwise are of an earlier life, and their window begins now.
    pub(super) fn workers_without_links(&mut self, round: &mut Round) -> Result<(), StoreError> {
        let (heard, window) = (round.clocks.heard, self.config.rules.recovery_window);
        for row in self.store.reader().workers()? {
            let linked = self.roster.get(row.id).is_some_and(|w| w.link.is_some());
            let never_here = row.epoch == Epoch::default();
            if linked || never_here || row.removed_at.is_some() {
                continue;
            }
            let left = row.left_heard.unwrap_or(heard);
            if row.left_heard.is_none() {
                round.left.insert(row.id, left);
            }
            let holds = self.roster.get(row.id).is_some_and(|w| !w.held.is_empty());
            if holds || heard < left + window {
                self.roster.know(row, left);
            }
        }
        Ok(())
    }

    /// Whatever is held by a worker without a link.
    pub(super) fn links_gone(&mut self, round: &mut Round) {
        for (attempt, place) in self.cut_off() {
            self.link_gone(attempt, place, None, round);
        }
    }

    /// What workers without a link hold.
    pub(super) fn cut_off(&self) -> Vec<(AttemptId, Place)> {
        let away = self.roster.iter().filter(|(_, w)| w.link.is_none());
        away.flat_map(|(_, w)| w.held.iter().map(|(attempt, place)| (*attempt, *place))).collect()
    }

    /// `seen_on`: the link that is gone; none means every link there ever was.
    pub(super) fn link_gone(&mut self, attempt: AttemptId, place: Place, seen_on: Option<Epoch>, round: &mut Round) {
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { return };
        let step = place.step;
        let event = match &cached.job.step(step).state {
            State::Queued(queued) => queued.offer.filter(|o| o.attempt == attempt).map(|o| Event::OfferLost {
                ticket: Ticket { step, attempt, fence: o.fence },
                epoch: seen_on.unwrap_or(o.epoch),
            }),
            state @ (State::Running(_) | State::Cancelling(_)) => {
                state.live().filter(|l| l.attempt == attempt).map(|l| Event::LinkLost {
                    ticket: Ticket { step, attempt, fence: l.fence },
                    epoch: seen_on.unwrap_or(l.epoch),
                })
            }
            State::Recovering(_) | State::Pending | State::Held(_) | State::Waiting(_) | State::Final(_) => None,
        };
        if let Some(event) = event
            && let Err(error) = self.apply(place.job, &event, round)
        {
            tracing::debug!(job = %place.job, step = step.0, %error, "a lost link changed nothing");
        }
    }

    /// A hello that cannot be written is answered, so that its worker does not wait for a welcome that never comes.
    pub(super) fn turn_away(&mut self, command: &Command) {
        let Command::Link(LinkEvent::Hello { link, worker, sender, .. }) = command else { return };
        refuse(sender, RefusedCode::GoingAway, "the server could not record the hello; try again");
        self.links.remove(link);
        self.roster.update(*worker, |w| {
            if let Some(w) = w.as_mut().filter(|w| w.link == Some(*link)) {
                w.link = None;
            }
        });
    }
}
