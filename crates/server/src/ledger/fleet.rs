//! What operators say of workers and of dispatch as a whole. Their word and all that follows from it for jobs are
//! committed together, so that a crash leaves neither half.

use engine::event::Ticket;
use engine::{Epoch, Event, Heard, Time, WorkerId};
use protocol::link::{Hello, PROTOCOL_VERSION, RefusedCode, ServerMessage, Verdict, VerdictKind, Welcome};
use serde::{Deserialize, Serialize};
use store::rows::{FleetChange, WorkerRow};
use store::{Reader, Store, StoreError};

use crate::dispatch::{LinkId, Pause, Worker};

use super::command::LinkSender;
use super::core::Core;
use super::links::Link;
use super::round::Round;

/// The key of the store's settings that says whether dispatch is paused.
const DISPATCH_KEY: &str = "dispatch";

/// An operator's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetOrder {
    /// Whether the worker is to get no new work.
    Drain {
        worker: WorkerId,
        on: bool,
    },
    /// The worker no longer belongs to the fleet.
    Remove {
        worker: WorkerId,
        by: String,
    },
    /// Nothing new is handed out to anybody.
    Pause {
        by: String,
    },
    Resume,
}

/// What an order came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FleetAnswer {
    /// Offers that were taken back.
    pub offers: u32,
    /// Attempts that may still run there.
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    #[error("there is no such worker")]
    NoSuchWorker,
    #[error("internal error: {0}")]
    Internal(String),
}

/// The order that dispatch rests, as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredPause {
    paused: bool,
    #[serde(default)]
    since: i64,
    #[serde(default)]
    by: String,
}

/// Whether dispatch is paused, by what is stored.
pub fn stored_pause(reader: &dyn Reader) -> Result<Option<Pause>, StoreError> {
    let Some(text) = reader.meta(DISPATCH_KEY)? else { return Ok(None) };
    // What cannot be read holds nobody up; the next order writes it anew.
    let stored: Option<StoredPause> = serde_json::from_str(&text).ok();
    Ok(stored.filter(|stored| stored.paused).map(|stored| Pause { since: Time(stored.since), by: stored.by }))
}

impl<S: Store> Core<S> {
    pub(super) fn fleet(&mut self, order: &FleetOrder, round: &mut Round) -> Result<FleetAnswer, FleetError> {
        match order {
            FleetOrder::Drain { worker, on } => self.drain(*worker, *on, round),
            FleetOrder::Remove { worker, by } => self.remove(*worker, by, round),
            FleetOrder::Pause { by } => {
                // The first one's time and name stay.
                if self.roster.pause().is_none() {
                    let pause = Pause { since: round.now, by: by.clone() };
                    round.meta(DISPATCH_KEY, &StoredPause { paused: true, since: pause.since.0, by: by.clone() });
                    tracing::warn!(by, "dispatch is paused: nothing new is handed out");
                    self.roster.pause_dispatch(pause);
                }
                Ok(FleetAnswer::default())
            }
            FleetOrder::Resume => {
                if self.roster.pause().is_some() {
                    round.meta(DISPATCH_KEY, &StoredPause { paused: false, since: 0, by: String::new() });
                    tracing::info!("dispatch goes on");
                    self.roster.resume_dispatch(round.clocks.heard);
                }
                Ok(FleetAnswer::default())
            }
        }
    }

    fn drain(&mut self, worker: WorkerId, on: bool, round: &mut Round) -> Result<FleetAnswer, FleetError> {
        let known = self.member(worker)?;
        tracing::info!(worker = known.name, %worker, host = known.hostname, on, "an operator drains a worker");
        self.roster.drain(worker, round.clocks.heard, |drain| drain.operator = on);
        round.fleet.push(FleetChange::Drain { worker, on });
        Ok(FleetAnswer::default())
    }

    fn remove(&mut self, worker: WorkerId, by: &str, round: &mut Round) -> Result<FleetAnswer, FleetError> {
        let known = self.member(worker)?;
        let (name, host, link, held) = (known.name.clone(), known.hostname.clone(), known.link, known.held.clone());
        // A round that came to nothing may have taken its link from it.
        let of_worker = || self.links.iter().find(|(_, known)| known.worker == worker).map(|(id, _)| *id);
        let link = link.or_else(of_worker);
        // First, so that what the engine says of its attempts says that it is gone.
        self.roster.update(worker, |w| {
            if let Some(w) = w {
                w.removed = true;
                w.link = None;
                w.elsewhere = false;
                w.left = Some(round.clocks.heard);
            }
        });
        round.fleet.push(FleetChange::Remove { worker, at: round.now });
        let mut answer = FleetAnswer::default();
        for (attempt, place) in held {
            let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions) else { continue };
            let state = cached.job.state(place.step);
            let Some((_, fence)) = state.ticket().filter(|(id, _)| *id == attempt) else { continue };
            let granted = state.live().is_some();
            let event = Event::WorkerRemoved { ticket: Ticket { step: place.step, attempt, fence }, by: by.to_owned() };
            match self.apply(place.job, &event, round) {
                Ok(()) if granted => answer.attempts += 1,
                Ok(()) => answer.offers += 1,
                Err(error) => {
                    tracing::warn!(job = %place.job, step = place.step.0, %error, "a removal could not be applied");
                }
            }
        }
        tracing::warn!(worker = name, %worker, host, by, answer.offers, answer.attempts, "a worker was removed");
        if let Some(link) = link {
            self.dismiss(link, answer.attempts == 0, round);
        }
        self.count_connected();
        Ok(answer)
    }

    /// One that enrolled since the start and never said hello is known only to the store.
    fn member(&mut self, worker: WorkerId) -> Result<&Worker, FleetError> {
        if self.roster.get(worker).is_none() {
            let rows = self.store.reader().workers().map_err(|error| FleetError::Internal(error.to_string()))?;
            for row in rows.iter().filter(|row| row.id == worker) {
                self.note_row(row);
            }
        }
        self.roster.get(worker).filter(|known| !known.removed).ok_or(FleetError::NoSuchWorker)
    }

    /// The last word to a removed worker. One that still has attempts ends them and reports that, which is the proof
    /// that they are over; it closes the link itself then.
    fn dismiss(&mut self, link: LinkId, close: bool, round: &mut Round) {
        round.outgoing.push((None, link, last_word()));
        if let Some(known) = self.links.get_mut(&link) {
            known.dismissed = true;
        }
        if close {
            round.hang_up.push(link);
        }
    }

    /// A removed worker's credential is good for one thing: to hear that all it has is to stop, and why.
    pub(super) fn farewell(
        &mut self,
        link: LinkId,
        worker: WorkerId,
        hello: &Hello,
        sender: LinkSender,
        round: &mut Round,
    ) {
        let epoch = self.roster.get(worker).map_or(Epoch(hello.last_epoch), |known| known.epoch);
        tracing::warn!(%worker, name = hello.name, host = hello.hostname, "a removed worker came back and is sent away");
        self.links.insert(link, Link::new(worker, epoch, hello, sender, round.clocks.heard));
        let stop = |held: &protocol::link::HeldAttempt| Verdict {
            ticket: held.ticket,
            verdict: VerdictKind::StopGraceful,
            log_acked_seq: 0,
        };
        let welcome = Welcome {
            protocol: PROTOCOL_VERSION,
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            worker: worker.0,
            epoch: epoch.0,
            settings: self.config.link,
            verdicts: hello.held.iter().map(stop).collect(),
        };
        round.welcomes.push((link, welcome));
        self.dismiss(link, hello.held.is_empty(), round);
    }

    /// What operators said of dispatch as a whole, before this start or to another server.
    pub(super) fn load_pause(&mut self) -> Result<(), StoreError> {
        match stored_pause(&*self.store.reader())? {
            Some(pause) => self.roster.pause_dispatch(pause),
            None if self.roster.pause().is_some() => {
                let heard = self.hearing.clocks(self.tick.now).heard;
                self.roster.resume_dispatch(heard);
            }
            None => {}
        }
        Ok(())
    }

    /// What a worker is called, and what operators said of it. Returns its link, if it is here.
    pub(super) fn note_row(&mut self, row: &WorkerRow) -> Option<LinkId> {
        let is_known = |worker: &Worker| {
            let named = worker.name == row.name && worker.hostname == row.hostname && worker.epoch >= row.epoch;
            named && worker.removed == row.removed_at.is_some() && worker.drain.operator == row.draining
        };
        let known = self.roster.get(row.id);
        let link = known.and_then(|worker| worker.link);
        if known.is_some_and(is_known) {
            return link;
        }
        self.roster.update(row.id, |slot| {
            let worker = slot.get_or_insert_with(|| Worker::away(row.name.clone()));
            worker.name.clone_from(&row.name);
            worker.hostname.clone_from(&row.hostname);
            worker.removed = row.removed_at.is_some();
            // Whichever server has its link still, it counts no more.
            worker.elsewhere &= !worker.removed;
            worker.epoch = worker.epoch.max(row.epoch);
        });
        let heard = self.hearing.clocks(self.tick.now).heard;
        self.roster.drain(row.id, heard, |drain| drain.operator = row.draining);
        link
    }

    /// Another server was told to remove a worker that hangs on this one. That is on record already, and said at once: the round
    /// in which it is seen may come to nothing, and it is seen once.
    pub(super) fn dismiss_removed(&mut self, link: LinkId, worker: WorkerId, heard: Heard) {
        let mut holds_nothing = true;
        self.roster.update(worker, |w| {
            if let Some(w) = w {
                w.link = None;
                w.left = Some(heard);
                holds_nothing = w.held.is_empty();
            }
        });
        self.count_connected();
        self.send(link, last_word());
        if let Some(known) = self.links.get_mut(&link) {
            known.dismissed = true;
            if holds_nothing {
                known.sender.close();
            }
        }
    }

    pub(super) fn count_connected(&self) {
        self.metrics.connected.set(i64::try_from(self.roster.connected()).unwrap_or(i64::MAX));
    }
}

fn last_word() -> ServerMessage {
    let message = "this worker was removed by an operator, or was not seen for too long; enrol it again to use it";
    ServerMessage::Refused { code: RefusedCode::Removed, message: message.to_owned() }
}
