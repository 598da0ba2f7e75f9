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
use store::{Batch, Record, Store, StoreError};
use uuid::Uuid;

use crate::dispatch::{LinkId, Place};

use super::command::LinkSender;
use super::core::Core;
use super::knock::refuse;
use super::restored::{RESTORED_KEY, TOLD_KEY};
use super::round::Round;

/// The key of the store's settings with the last loss that a server noticed.
const AMNESIA_KEY: &str = "amnesia";

/// The key of the one after which everybody has reported. Not the same: whoever ends one must not wipe out the next.
const AMNESIA_OVER_KEY: &str = "amnesia-over";

/// The settings in which others say that commits were lost.
pub(super) const RECORD_KEYS: [&str; 3] = [AMNESIA_KEY, RESTORED_KEY, TOLD_KEY];

/// Numbers of events are missing that this server has seen, or stand for others now.
pub(super) const EVENTS_GONE: Evidence = Evidence::Own("events that were seen are gone");

/// What this server wrote into its own row with its last mark is not there, or the row itself is not.
pub(super) const ROW_BEHIND: Evidence = Evidence::Own("this server's own row is older than its last mark");

/// The installation's mark has gone back.
pub(super) const MARK_BEHIND: Evidence = Evidence::Own("the last mark is older than one that was committed");

/// A worker has an attempt of a step that is on record, and the start of it is not.
pub(super) const ATTEMPT_GONE: Evidence = Evidence::Own("a worker has an attempt that is not on record");

/// A worker has a link here of which its row does not know.
pub(super) const HELLO_GONE: Evidence = Evidence::Own("a worker's hello is not on record");

/// An operator says so.
pub(super) const SAID_SO: Evidence = Evidence::Own("an operator says that the database was restored");

/// Why commits are taken for lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// What this server has seen, and the rows do not say.
    Own(&'static str),
    /// It is on record already: another server has seen something, or this one in the round before.
    OnRecord,
}

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

/// A loss, as it is stored for the other servers and for the next start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Loss {
    until: i64,
    /// Whom the rows do not show as somebody to wait for, and a server remembers as here: with the epochs that their rows had.
    #[serde(default)]
    remembered: BTreeMap<Uuid, u64>,
    /// Grows with every loss.
    #[serde(default)]
    number: u64,
    /// Two servers may notice the same at once.
    #[serde(default)]
    nonce: u64,
}

impl Loss {
    /// Whether a server that knows of `known` has not seen to this one. The one that it knows of may not be on record yet,
    /// or be lost itself.
    fn is_news_after(&self, known: Option<&Loss>) -> bool {
        known.is_none_or(|known| self.nonce != known.nonce && self.number >= known.number)
    }
}

impl<S: Store> Core<S> {
    /// Commits are lost, by this evidence. All servers are told.
    fn commits_were_lost(&mut self, evidence: &str, round: &mut Round) {
        let until = round.clocks.heard + self.config.rules.recovery_window;
        self.metrics.amnesia.inc();
        tracing::error!(
            evidence,
            "commits were lost: was the database restored, or did it fail over to a copy that lacks the last of them? \
             Nothing but steps with effects `none` starts until all workers have reported, or a window has passed"
        );
        let before: Vec<Loss> =
            [self.last_loss().ok().flatten(), self.known_loss.clone()].into_iter().flatten().collect();
        let number = before.iter().map(|loss| loss.number).max().unwrap_or(0).saturating_add(1);
        let mut loss = Loss { until: until.0, remembered: BTreeMap::new(), number, nonce: self.random.bits() };
        // Not everybody may have heard yet of the one that this stands for from now on.
        for recent in before.into_iter().filter(|loss| Heard(loss.until) > round.clocks.heard) {
            loss.remembered.extend(recent.remembered);
        }
        let only_here = self.remembered_here(&round.clocks);
        loss.remembered.extend(only_here.into_iter().map(|(worker, epoch)| (worker.0, epoch.0)));
        self.unsaid_loss = Some(loss.clone());
        self.hold_back(loss, &round.clocks);
    }

    /// Whom other servers would not wait for by the rows that are left, and this one does.
    fn remembered_here(&self, clocks: &Clocks) -> BTreeMap<WorkerId, Epoch> {
        let Ok(rows) = self.store.reader().workers() else { return BTreeMap::new() };
        let on_record: BTreeSet<WorkerId> = rows.iter().map(|row| row.id).collect();
        // Who was enrolled in the time that is lost cannot come again as who it was, and has what it has.
        let unknown = self.links.values().filter(|link| !link.dismissed && !on_record.contains(&link.worker));
        let only_here = |row: &WorkerRow| self.is_awaited(row, clocks) && !self.is_shown_as_here(row, clocks);
        let known = rows.iter().filter(|row| only_here(row)).map(|row| (row.id, row.epoch));
        let gone =
            self.strangers_gone.iter().filter(|(id, _)| !on_record.contains(id)).map(|(id, (epoch, _))| (*id, *epoch));
        known.chain(unknown.map(|link| (link.worker, link.epoch))).chain(gone).collect()
    }

    /// Whoever starts next does not remember what this server does.
    pub(super) fn leave_word_of_a_loss(&mut self, round: &mut Round) -> Result<(), StoreError> {
        self.compare_memory()?;
        if let Some(Evidence::Own(evidence)) = self.forgotten {
            self.commits_were_lost(evidence, round);
        }
        self.say_loss(round);
        Ok(())
    }

    /// A loss is said with every round until it is on record: the one that it was noticed in may come to nothing.
    pub(super) fn say_loss(&self, round: &mut Round) {
        if let Some(loss) = &self.unsaid_loss {
            round.meta(AMNESIA_KEY, loss);
        }
    }

    pub(super) fn has_said(&mut self, batch: &Batch) {
        self.has_said_restored(batch);
        if batch.meta.iter().any(|(key, _)| *key == AMNESIA_KEY) {
            self.unsaid_loss = None;
        }
    }

    /// Nothing unsafe starts before all workers have reported, or had the time to.
    fn hold_back(&mut self, loss: Loss, clocks: &Clocks) {
        let rows = self.store.reader().workers().ok();
        // Another server has noticed it, and asked those who are there, before this one hears of it.
        let has_come = |row: &WorkerRow| !row.unread && row.after_loss == Some(loss.nonce);
        let have_come: BTreeSet<WorkerId> =
            rows.iter().flatten().filter(|row| has_come(row)).map(|row| row.id).collect();
        let mut awaited: Option<BTreeMap<WorkerId, Epoch>> = rows.map(|rows| {
            let remembered = loss.remembered.iter().map(|(worker, epoch)| (WorkerId(*worker), Epoch(*epoch)));
            // A hello of the round in which the loss is noticed is no answer to it, and not in the rows yet.
            let epoch = |row: &WorkerRow| self.roster.get(row.id).map_or(row.epoch, |known| known.epoch.max(row.epoch));
            let here = rows.iter().filter(|row| self.is_awaited(row, clocks)).map(|row| (row.id, epoch(row)));
            remembered.chain(self.remembered_here(clocks)).chain(here).collect()
        });
        let (mut until, mut withheld) = (Heard(loss.until), BTreeSet::new());
        if let Some(before) = self.amnesia.take() {
            until = until.max(before.until);
            // Also who was waited for already, and has no link here any more since it was asked.
            // What it said before it was known that this is lost as well is no answer.
            awaited = awaited.zip(before.awaited).map(|(mut new, still)| {
                for (worker, epoch) in still {
                    let known = new.entry(worker).or_insert(epoch);
                    *known = epoch.max(*known);
                }
                new
            });
            withheld = before.withheld;
        }
        awaited.iter_mut().for_each(|awaited| awaited.retain(|worker, _| !have_come.contains(worker)));
        self.amnesia = Some(Amnesia { until, awaited, let_in: BTreeSet::new(), withheld });
        self.known_loss = Some(loss);
    }

    /// It may have something: it is connected or was lately, by its row or as this server remembers.
    fn is_awaited(&self, row: &WorkerRow, clocks: &Clocks) -> bool {
        let remembered = self
            .roster
            .get(row.id)
            .is_some_and(|known| known.link.is_some() || known.elsewhere || self.was_lately(known.left, clocks));
        row.removed_at.is_none() && (remembered || self.is_shown_as_here(row, clocks))
    }

    /// The same by its row alone. One that has never been here has nothing; but that it was here may be what is lost.
    fn is_shown_as_here(&self, row: &WorkerRow, clocks: &Clocks) -> bool {
        row.epoch > Epoch::default() && (row.left_heard.is_none() || self.was_lately(row.left_heard, clocks))
    }

    fn was_lately(&self, left: Option<Heard>, clocks: &Clocks) -> bool {
        left.is_some_and(|left| clocks.heard < left + self.config.rules.recovery_window)
    }

    /// Some server remembers what the rows do not say any more. Memory is dropped, and everyone connected here asked to say
    /// again what they have: they may know of what another one has lost.
    pub(super) fn rows_fell_behind(&mut self, evidence: Evidence, round: &mut Round) {
        if let Err(error) = self.read_what_is_left() {
            tracing::warn!(%error, "the rows that are left cannot be read; they are tried again");
            self.forgotten = Some(evidence);
            return;
        }
        self.doubt_schedules();
        if let Evidence::Own(evidence) = evidence {
            self.commits_were_lost(evidence, round);
        }
        // Not those who came since the loss is known: they came with all that they have. Nor those who are about to go, who
        // would not come again.
        let let_in = self.amnesia.as_ref().map(|amnesia| amnesia.let_in.clone()).unwrap_or_default();
        let asked = self.links.iter().filter(|(_, known)| !known.dismissed && !let_in.contains(&known.worker));
        let links: Vec<LinkId> = asked.map(|(link, _)| *link).collect();
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
        // What others have changed since was passed over, also where it concerns those who stay.
        let words = self.links.values().flat_map(|known| known.words.values());
        let told = words.map(|word| word.place.job).collect();
        self.noticed.read_again(told);
        self.check_soon(round.now);
        self.must_look_around = true;
    }

    fn read_what_is_left(&mut self) -> Result<(), StoreError> {
        self.noticed.start(self.store.reader().last_event()?);
        self.cache.clear();
        self.rebuild_index()
    }

    /// Tells one loss from the next.
    pub(super) fn last_known_loss(&self) -> Option<u64> {
        self.known_loss.as_ref().map(|loss| loss.nonce)
    }

    /// The last loss that is on record, if there is one.
    fn last_loss(&self) -> Result<Option<Loss>, StoreError> {
        Ok(loss(self.store.reader().meta(AMNESIA_KEY)?.as_deref()))
    }

    fn is_over(&self, loss: &Loss) -> Result<bool, StoreError> {
        let text = self.store.reader().meta(AMNESIA_OVER_KEY)?;
        Ok(text.is_some_and(|text| text == loss.nonce.to_string()))
    }

    /// What was noticed before this start. Nobody is connected yet who would have to be asked.
    pub(super) fn inherit_amnesia(&mut self) -> Result<(), StoreError> {
        self.look_for_restore()?;
        let Some(loss) = self.last_loss()? else { return Ok(()) };
        let until = Heard(loss.until);
        if until > self.hearing.clocks(self.tick.now).heard && !self.is_over(&loss)? {
            self.amnesia = Some(Amnesia { until, ..Amnesia::default() });
        }
        self.known_loss = Some(loss);
        Ok(())
    }

    /// Another server may have noticed a loss. That counts from here on; links are asked with the next round.
    pub(super) fn hear_of_losses(&mut self) -> Result<(), StoreError> {
        if !self.siblings.is_shared() {
            return Ok(());
        }
        self.look_for_restore()?;
        let loss = self.last_loss()?;
        self.hear_of(loss);
        Ok(())
    }

    fn hear_of(&mut self, loss: Option<Loss>) {
        let Some(mut loss) = loss else { return };
        if self.known_loss.as_ref().is_some_and(|known| known.nonce == loss.nonce) {
            return self.hear_who_else_is_awaited(&loss);
        }
        if loss.is_news_after(self.known_loss.as_ref()) && self.forgotten.is_none() {
            tracing::warn!("another server has noticed that commits were lost");
            let clocks = self.hearing.clocks(self.tick.now);
            // Whoever noticed it may not remember whom this one does.
            let said = loss.remembered.len();
            for (worker, epoch) in self.remembered_here(&clocks) {
                loss.remembered.entry(worker.0).or_insert(epoch.0);
            }
            if loss.remembered.len() > said {
                self.unsaid_loss = Some(loss.clone());
            }
            self.hold_back(loss, &clocks);
            self.forgotten = Some(Evidence::OnRecord);
        }
    }

    /// Another server has heard of the loss that this one knows, and remembers more workers. Two that say so at once both stay.
    fn hear_who_else_is_awaited(&mut self, loss: &Loss) {
        let Some(known) = &mut self.known_loss else { return };
        let new: BTreeMap<Uuid, u64> = loss
            .remembered
            .iter()
            .filter(|(id, _)| !known.remembered.contains_key(id))
            .map(|(id, e)| (*id, *e))
            .collect();
        let unsaid = known.remembered.keys().any(|id| !loss.remembered.contains_key(id));
        known.remembered.extend(&new);
        if unsaid {
            self.unsaid_loss = Some(known.clone());
        }
        if new.is_empty() {
            return;
        }
        let awaited = new.into_iter().map(|(worker, epoch)| (WorkerId(worker), Epoch(epoch)));
        match &mut self.amnesia {
            Some(Amnesia { awaited: Some(all), .. }) => all.extend(awaited),
            Some(Amnesia { awaited: None, .. }) => {}
            None => {
                let (until, awaited) = (Heard(loss.until), Some(awaited.collect()));
                self.amnesia = Some(Amnesia { until, awaited, ..Amnesia::default() });
            }
        }
    }

    /// Whether the rows, as they were when the round began, say what this server remembers, and what others say of losses.
    fn hold_against(&mut self, record: &Record) {
        self.compare_with(record.last_event, &record.servers);
        let setting = |key| record.settings.get(key).map(String::as_str);
        self.restore_was_said(setting(RESTORED_KEY), setting(TOLD_KEY));
        self.hear_of(loss(setting(AMNESIA_KEY)));
    }

    /// Whether the worker is to come again with what it has put away: the word of that may be lost. One that comes with it
    /// is let in.
    pub(super) fn recalls(&mut self, row: &WorkerRow, hello: &Hello, round: &mut Round) -> bool {
        let recalled = hello.kept == Some(Kept::Recalled);
        let ahead = Epoch(hello.last_epoch) > row.epoch && row.epoch > Epoch::default();
        // What it was asked for, or is about to be, is no other loss.
        let known = self.amnesia.as_ref().is_some_and(|amnesia| recalled || !amnesia.let_in.contains(&row.id));
        if ahead && !known {
            self.commits_were_lost("a worker had a link that is not on record", round);
            self.forgotten = Some(Evidence::OnRecord);
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

    /// Their hellos are on record now: what they have is not forgotten again by whoever decides next. Who said hello before the
    /// loss was noticed did not know that it was to bring all that it keeps, and is asked.
    pub(super) fn have_reported(&mut self, round: &Round) {
        let known = self.last_known_loss();
        for report in round.reported.iter().filter(|report| report.after == known) {
            self.has_reported(report.worker, report.epoch);
        }
        let awaited = self.amnesia.as_ref().and_then(|amnesia| amnesia.awaited.as_ref());
        if awaited.is_some_and(BTreeMap::is_empty) {
            self.check_soon(round.now);
        }
    }

    /// The hello that it came with is not on record, and its next one may hold less.
    pub(super) fn has_not_come(&mut self, worker: WorkerId) {
        if let Some(amnesia) = &mut self.amnesia {
            amnesia.let_in.remove(&worker);
        }
    }

    /// Ends it when its time has come.
    pub(super) fn settle_amnesia(&mut self, round: &mut Round) {
        let over = self.amnesia.as_ref().is_some_and(|amnesia| {
            amnesia.until <= round.clocks.heard || amnesia.awaited.as_ref().is_some_and(BTreeMap::is_empty)
        });
        if over && let Some(amnesia) = self.amnesia.take() {
            tracing::info!("workers have reported, or had the time to: steps start again");
            // Another server may remember somebody who has not reported.
            if !self.siblings.is_shared() {
                round.meta(AMNESIA_OVER_KEY, &self.known_loss.as_ref().map(|loss| loss.nonce));
            }
            self.noticed.read_again(amnesia.withheld);
        }
    }

    /// Asked before something starts: with several servers a loss may not be noticed yet, since others write on, or may be
    /// known to another one only.
    pub(super) fn has_lost_commits(&mut self, round: &mut Round) -> bool {
        if self.siblings.is_shared() && round.first_start() {
            if let Some(record) = self.ahead.take_record() {
                self.hold_against(&record);
            } else if let Err(error) = self.compare_memory().and_then(|()| self.hear_of_losses()) {
                tracing::warn!(%error, "the rows could not be held against what is remembered");
            }
        }
        self.forgotten.is_some()
    }

    /// Whether this step must not start now. It is looked at again when it may.
    pub(super) fn withholds(&mut self, place: Place) -> bool {
        if self.restore.is_untold(place.job) {
            return true;
        }
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

    /// A worker says what became of an attempt that had leave to start when it was last spoken of on this link, and the rows do not
    /// know of its start: that was lost with its commit. Nothing is answered. All are asked for what they have, and the worker
    /// brings it again. What was deleted with its job was on record until then.
    pub(super) fn notices_lost_start(
        &mut self,
        link: LinkId,
        ticket: protocol::attempt::Ticket,
        round: &mut Round,
    ) -> bool {
        let attempt = AttemptId(ticket.attempt);
        let word = self.links.get(&link).and_then(|known| known.words.get(&attempt));
        let Some(place) = word.filter(|word| word.granted).map(|word| word.place) else { return false };
        if !self.siblings.is_shared() || self.is_on_record_at(place, attempt, round) {
            return false;
        }
        tracing::warn!(%attempt, job = %place.job, "the start of an attempt is not on record any more");
        self.forgotten = Some(ATTEMPT_GONE);
        true
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
        let attempts = self.store.reader().attempts(job).inspect_err(|error| self.cache.missed(error)).ok()?;
        let newest = attempts.iter().filter(|a| a.ix == step).map(|a| a.fence).max();
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

/// The loss that the setting speaks of.
fn loss(text: Option<&str>) -> Option<Loss> {
    text.and_then(|text| serde_json::from_str(text).ok())
}

/// Why a worker is sent away only to come back.
pub(super) const COME_WITH_ALL: &str = "the server's database lost commits; come again with all that is kept";

/// The worker is to come again, with what it has put away as well.
pub(super) fn recall(sender: &LinkSender) {
    refuse(sender, RefusedCode::Recall, COME_WITH_ALL);
}
