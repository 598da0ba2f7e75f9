//! Links that are gone: a socket that closed, a worker that shows no sign of life, a server that starts.
//!
//! Offers are taken back, attempts get their recovery window; see `engine`'s `LinkLost` and `OfferLost`.

use std::time::Duration;

use engine::event::{NoReturn, Ticket};
use engine::{AttemptId, Epoch, Event, Heard, State, WorkerId};
use planted::Bug;
use protocol::link::RefusedCode;
use store::Store;

use crate::dispatch::{LinkId, Place};

use super::command::{Command, LinkEvent};
use super::core::Core;
use super::knock::{UNANSWERED_INTERVALS, refuse};
use super::round::Round;

/// Which links are seen to be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The one of this epoch.
    On(Epoch),
    /// All that the worker had up to this epoch. There may be a newer one that is not known here.
    UpTo(Epoch),
    /// The same, with the server that had them and was last heard then.
    WithServer(Epoch, Heard),
}

/// Something that a worker without a link holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CutOff {
    pub worker: WorkerId,
    pub attempt: AttemptId,
    pub place: Place,
    /// Up to the last link that its worker had.
    pub seen: Seen,
}

impl Seen {
    /// The epoch on which an attempt's or offer's link was lost, if it was.
    fn lost(self, epoch: Epoch) -> Option<Epoch> {
        match self {
            Seen::On(seen) => Some(seen),
            Seen::UpTo(newest) | Seen::WithServer(newest, _) => (epoch <= newest).then_some(epoch),
        }
    }
}

impl<S: Store> Core<S> {
    pub(super) fn link_closed(&mut self, link: LinkId, round: &mut Round) {
        let Some(closed) = self.links.remove(&link) else { return self.knocker_left(link) };
        let worker = closed.worker;
        if planted::is(Bug::DeadLinkStays) && closed.number == 0 {
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
        round.left.insert(worker, (closed.epoch, round.clocks.heard));
        self.count_connected();
        for (attempt, place) in held {
            if no_return {
                self.no_return(attempt, place, closed.epoch, NoReturn::SaidSo, round);
            } else {
                self.link_gone(attempt, place, Seen::On(closed.epoch), round);
            }
        }
        if counts {
            self.suspect_ourselves(worker, round);
        }
        self.knock_after(link, worker);
    }

    /// Ends a link from this side.
    pub(super) fn drop_link(&mut self, link: LinkId, why: &str, round: &mut Round) {
        if let Some(known) = self.links.get(&link) {
            refuse(&known.sender, RefusedCode::GoingAway, why);
        }
        self.link_closed(link, round);
    }

    /// This server has not reached its database for so long. Others that do cannot know that it still hears its workers, and give up what
    /// these run when their windows are over: so they are sent away while there is time, and come to another server. To be called
    /// again with each try. Their links end as any link does, once there is a database to write that to.
    pub fn send_workers_away(&mut self, away: Duration) {
        let patience = Duration::from_millis(self.config.link.ping_ms) * UNANSWERED_INTERVALS;
        if self.siblings.alone() || away < patience.min(self.config.rules.recovery_window / 2) {
            return;
        }
        for known in self.links.values_mut().filter(|known| !known.sent_away) {
            known.sent_away = true;
            refuse(
                &known.sender,
                RefusedCode::GoingAway,
                "this server does not reach its database; connect to another one",
            );
        }
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

    /// Not of jobs that could not be written of late: they would only take with them whatever else this round decides. When
    /// all is read anew they are tried, one by one if need be.
    pub(super) fn links_gone(&mut self, round: &mut Round) {
        for CutOff { attempt, place, seen, .. } in self.cut_off(round.clocks.heard) {
            if self.must_rebuild || !self.is_set_aside(place.job) {
                self.link_gone(attempt, place, seen, round);
            }
        }
    }

    /// What workers without a link hold, and is this server's to see to.
    pub(super) fn cut_off(&self, heard: Heard) -> Vec<CutOff> {
        let away = self
            .roster
            .iter()
            .filter(|(_, w)| !w.is_connected() || (planted::is(Bug::StartFlipsSiblings) && w.link.is_none()));
        let held = away.flat_map(|(id, w)| w.held.iter().map(move |(attempt, place)| (id, w, *attempt, *place)));
        let cut_off = held.filter_map(|(worker, w, attempt, place)| {
            let with_server = w.left.filter(|_| w.left_with_server);
            let ours = self.siblings.sees_to(place.job, heard.since(with_server.unwrap_or(heard)));
            let seen = with_server.map_or(Seen::UpTo(w.epoch), |since| Seen::WithServer(w.epoch, since));
            ours.then_some(CutOff { worker, attempt, place, seen })
        });
        cut_off.collect()
    }

    pub(super) fn link_gone(&mut self, attempt: AttemptId, place: Place, seen: Seen, round: &mut Round) {
        let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { return };
        let step = place.step;
        let event = match cached.job.state(step) {
            State::Queued(queued) => queued.offer.filter(|o| o.attempt == attempt).and_then(|o| {
                let ticket = Ticket { step, attempt, fence: o.fence };
                Some(Event::OfferLost { ticket, epoch: seen.lost(o.epoch)? })
            }),
            state @ (State::Running(_) | State::Cancelling(_)) => {
                state.live().filter(|l| l.attempt == attempt).and_then(|l| {
                    let (ticket, epoch) = (Ticket { step, attempt, fence: l.fence }, seen.lost(l.epoch)?);
                    Some(match seen {
                        Seen::On(_) | Seen::UpTo(_) => Event::LinkLost { ticket, epoch },
                        Seen::WithServer(_, since) => Event::ServerLost { ticket, epoch, since },
                    })
                })
            }
            State::Recovering(_) | State::Delegated(_) | State::Pending => None,
            State::Held(_) | State::Waiting(_) | State::Final(_) => None,
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
