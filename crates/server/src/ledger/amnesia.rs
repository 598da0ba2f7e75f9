//! Commits that were acknowledged and are not there any more: a database that fell over to a copy, or came back from a
//! backup. Workers know better than the rows then, and so does a server that still remembers.
//!
//! What was lost may be that a step has started. So nothing starts whose effects are not `none`, until every worker has
//! said what it has, or a window has passed; and what workers bring that is not on record is adopted, never stopped.

use std::collections::{BTreeMap, BTreeSet};

use engine::definition::Effects;
use engine::event::Ticket;
use engine::{AttemptId, Clocks, Epoch, Event, Heard, JobId, WorkerId};
use planted::Bug;
use protocol::link::{HeldAttempt, Hello, Kept, RefusedCode};
use serde::{Deserialize, Serialize};
use store::rows::WorkerRow;
use store::{Store, StoreError};

use crate::dispatch::{LinkId, Place};

use super::command::LinkSender;
use super::core::Core;
use super::knock::refuse;
use super::round::Round;

/// The key of the store's settings that says until when nothing unsafe starts.
const AMNESIA_KEY: &str = "amnesia";

/// Evidence: numbers of events are missing that this server has seen, or stand for others now.
pub(super) const EVENTS_GONE: &str = "events that were seen are gone";

/// Evidence: what this server wrote into its own row with its last mark is not there, or the row itself is not.
pub(super) const ROW_BEHIND: &str = "this server's own row is older than its last mark";

/// Evidence: a worker has an attempt of a step that is on record, and the start of it is not.
const ATTEMPT_GONE: &str = "a worker has an attempt that is not on record";

/// Nothing unsafe starts for a while.
#[derive(Debug, Default)]
pub(super) struct Amnesia {
    until: Heard,
    /// Who has not said hello since, and the epoch that its row had; none where only the window is known.
    awaited: Option<BTreeMap<WorkerId, Epoch>>,
    /// Who has come to this server since, with all that it keeps.
    let_in: BTreeSet<WorkerId>,
    /// Jobs with steps that would have been handed out.
    withheld: BTreeSet<JobId>,
}

/// The same, as it is stored for the other servers and for the next start.
#[derive(Serialize, Deserialize)]
struct StoredAmnesia {
    until: i64,
}

impl<S: Store> Core<S> {
    /// Commits are lost, by this evidence.
    pub(super) fn commits_were_lost(&mut self, evidence: &str, round: &mut Round) {
        let until = round.clocks.heard + self.config.rules.recovery_window;
        self.metrics.amnesia.inc();
        tracing::error!(
            evidence,
            "commits were lost: was the database restored, or did it fail over to a copy that lacks the last of them? \
             Nothing but steps with effects `none` starts until all workers have reported, or a window has passed"
        );
        round.meta(AMNESIA_KEY, &StoredAmnesia { until: until.0 });
        let awaited = match self.store.reader().workers() {
            Ok(rows) => {
                Some(rows.iter().filter(|row| self.is_awaited(row, &round.clocks)).map(|r| (r.id, r.epoch)).collect())
            }
            Err(_) => None,
        };
        let withheld = self.amnesia.take().map(|before| before.withheld).unwrap_or_default();
        self.amnesia = Some(Amnesia { until, awaited, let_in: BTreeSet::new(), withheld });
    }

    /// It may have something: it is connected, by its row or as this server remembers, or may still come back.
    fn is_awaited(&self, row: &WorkerRow, clocks: &Clocks) -> bool {
        let remembered = self.roster.get(row.id).is_some_and(|known| known.link.is_some() || known.elsewhere);
        let window = self.config.rules.recovery_window;
        row.removed_at.is_none()
            && row.epoch > Epoch::default()
            && (remembered || row.left_heard.is_none_or(|left| clocks.heard < left + window))
    }

    /// This server remembers what the rows do not say any more. Memory is dropped, and everyone connected here asked to
    /// say again what they have.
    pub(super) fn rows_fell_behind(&mut self, evidence: &'static str, round: &mut Round) {
        if let Err(error) = self.read_what_is_left() {
            tracing::warn!(%error, "the rows that are left cannot be read; they are tried again");
            self.forgotten = Some(evidence);
            return;
        }
        self.commits_were_lost(evidence, round);
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        for link in links {
            let Some(known) = self.links.remove(&link) else { continue };
            // It may come to another server, which has not heard of the loss: so it is asked here and now.
            if known.keeps && !planted::is(Bug::KeptNotAskedFor) {
                recall(&known.sender);
            } else {
                refuse(&known.sender, RefusedCode::GoingAway, "the server's database lost commits; connect again");
            }
            self.roster.update(known.worker, |w| {
                if let Some(w) = w {
                    w.link = None;
                    w.epoch = Epoch::default();
                }
            });
        }
        self.count_connected();
        self.check_soon(round.now);
        self.must_look_around = true;
    }

    fn read_what_is_left(&mut self) -> Result<(), StoreError> {
        self.noticed.start(self.store.reader().last_event()?);
        self.cache.clear();
        self.rebuild_index()
    }

    /// What was said before this start, or to another server.
    pub(super) fn load_amnesia(&mut self) -> Result<(), StoreError> {
        let Some(text) = self.store.reader().meta(AMNESIA_KEY)? else { return Ok(()) };
        let Ok(stored) = serde_json::from_str::<StoredAmnesia>(&text) else { return Ok(()) };
        let heard = self.hearing.clocks(self.tick.now).heard;
        if self.amnesia.is_none() && Heard(stored.until) > heard {
            self.amnesia = Some(Amnesia { until: Heard(stored.until), ..Amnesia::default() });
        }
        Ok(())
    }

    /// Whether the worker is to come again with what it has put away: the word of that may be lost. One that comes with it
    /// is let in.
    pub(super) fn recalls(&mut self, row: &WorkerRow, hello: &Hello, round: &mut Round) -> bool {
        let recalled = hello.kept == Some(Kept::Recalled);
        let ahead = Epoch(hello.last_epoch) > row.epoch && row.epoch > Epoch::default();
        // It was said when the worker was asked.
        if ahead && !(recalled && self.amnesia.is_some()) {
            self.commits_were_lost("a worker had a link that is not on record", round);
        }
        let Some(amnesia) = &mut self.amnesia else { return false };
        if hello.kept == Some(Kept::Apart) && !amnesia.let_in.contains(&row.id) && !planted::is(Bug::KeptNotAskedFor) {
            return true;
        }
        amnesia.let_in.insert(row.id);
        false
    }

    /// A worker has said hello, here or elsewhere.
    pub(super) fn has_reported(&mut self, worker: WorkerId, epoch: Epoch) {
        if let Some(awaited) = self.amnesia.as_mut().and_then(|amnesia| amnesia.awaited.as_mut())
            && awaited.get(&worker).is_some_and(|before| *before < epoch)
        {
            awaited.remove(&worker);
        }
    }

    /// Ends it when its time has come.
    pub(super) fn settle_amnesia(&mut self, round: &mut Round) {
        let over = self.amnesia.as_ref().is_some_and(|amnesia| {
            amnesia.until <= round.clocks.heard || amnesia.awaited.as_ref().is_some_and(BTreeMap::is_empty)
        });
        if over && let Some(amnesia) = self.amnesia.take() {
            tracing::info!("workers have reported, or had the time to: steps start again");
            round.meta(AMNESIA_KEY, &StoredAmnesia { until: 0 });
            self.noticed.read_again(amnesia.withheld);
        }
    }

    /// Asked before something starts: with several servers a loss may not be noticed yet, since others write on, or may be
    /// known to another one only.
    pub(super) fn has_lost_commits(&mut self, round: &mut Round) -> bool {
        if self.siblings.is_shared()
            && round.first_start()
            && let Err(error) = self.compare_memory().and_then(|()| self.load_amnesia())
        {
            tracing::warn!(%error, "the rows could not be held against what is remembered");
        }
        self.forgotten.is_some()
    }

    /// Whether this step must not start now. It is looked at again when it may.
    pub(super) fn withholds(&mut self, place: Place) -> bool {
        if self.amnesia.is_none() {
            return false;
        }
        let cached = match self.cache.load(place.job, &mut self.store, &self.definitions) {
            Ok(cached) => cached,
            Err(error) => {
                self.not_read(place.job, &error);
                return true;
            }
        };
        if place.step.get() >= cached.job.steps.len() {
            return true;
        }
        let safe = cached.job.def(place.step).effects == Effects::None || planted::is(Bug::UnsafeStartInAmnesia);
        if !safe && let Some(amnesia) = &mut self.amnesia {
            amnesia.withheld.insert(place.job);
        }
        !safe
    }

    /// The same for an offer that is accepted just now. What is on record as started goes on. None where the record cannot
    /// be read.
    pub(super) fn withholds_start(&mut self, place: Place, ticket: protocol::attempt::Ticket) -> Option<bool> {
        if !self.withholds(place) {
            return Some(false);
        }
        let offer = self.cache.get(place.job)?.job.state(place.step).offer();
        Some(offer.is_some_and(|offer| offer.attempt.0 == ticket.attempt))
    }

    /// An attempt that is not on record, of a step that is: it had leave to start, so the word of that was lost.
    pub(super) fn adopt(&mut self, link: LinkId, held: &HeldAttempt, epoch: Epoch, round: &mut Round) -> Option<Place> {
        if planted::is(Bug::StrangerNotAdopted) {
            return None;
        }
        // It may be an offer that came to nothing, which nobody keeps on record. Where commits are known to be lost, it is
        // safer to take it for what may run.
        if held.unsure && self.amnesia.is_none() {
            return None;
        }
        let worker = self.links.get(&link)?.worker;
        let job = JobId(held.job);
        self.doubt(job, round);
        let cached = self.cache.load(job, &mut self.store, &self.definitions).ok()?;
        let step = cached.job.find(&held.step)?;
        let (attempt, fence) = (AttemptId(held.ticket.attempt), engine::Fence(held.ticket.fence));
        let newest = self.store.reader().attempts(job).ok()?.iter().filter(|a| a.ix == step).map(|a| a.fence).max();
        if newest.is_some_and(|newest| newest >= fence.0) {
            return None;
        }
        let event = Event::Adopted { ticket: Ticket { step, attempt, fence }, worker, epoch };
        match self.apply(job, &event, round) {
            Ok(()) => {
                // What others have put away may not be on record either: all are asked.
                if self.amnesia.is_none() {
                    self.forgotten = Some(ATTEMPT_GONE);
                }
                // It may stand for one that another link was told to go on with: that one is to end.
                self.noticed.read_again(BTreeSet::from([job]));
                tracing::warn!(%attempt, %job, step = held.step, "an attempt that was not on record is adopted");
                Some(Place { job, step })
            }
            Err(error) => {
                tracing::debug!(%attempt, %job, step = held.step, %error, "an attempt that is not on record stays so");
                None
            }
        }
    }
}

/// Why a worker is sent away only to come back.
pub(super) const COME_WITH_ALL: &str = "the server's database lost commits; come again with all that is kept";

/// The worker is to come again, with what it has put away as well.
pub(super) fn recall(sender: &LinkSender) {
    refuse(sender, RefusedCode::Recall, COME_WITH_ALL);
}
