//! Other servers on the same database: who is there, what of the common work is ours, and what follows when one dies.
//!
//! Nobody tells anybody anything. Each server keeps a row, renewed with its marks, and each worker's row names the server
//! that has its link. Whoever reads that a server has made no mark for long takes its links for closed.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::state::Queued;
use engine::{AttemptId, Clocks, Epoch, Heard, JobId, State, WorkerId};
use protocol::link::RefusedCode;
use store::rows::{HearingRow, ServerId, ServerRow, WorkerRow};
use store::{Due, Lease, Store, StoreError};

use crate::dispatch::{LinkId, Worker};

use super::amnesia::{EVENTS_GONE, HELLO_GONE, MARK_BEHIND, ROW_BEHIND};
use super::core::Core;
use super::hearing::HearingRules;
use super::knock::refuse;
use super::links::Link;
use super::round::Round;

/// A server that made no mark for so long is forgotten when the next one starts.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What is another server's to do first is left to it for so many marks; then anyone may do it.
const LEFT_TO_OTHERS: u32 = 1;

/// A verdict on silence is put off by who may not pass it yet, after so many marks at most. For up to half a mark less
/// the sooner one may: where several may not, it is put off until the first of them may.
const LEFT_TO_JUDGES: u32 = 2;

/// The servers of this installation, as one of them sees them.
#[derive(Debug)]
pub(super) struct Siblings {
    pub me: ServerRow,
    /// Whether there can be others at all.
    shared: bool,
    /// Others that had a row when this one last looked.
    known: Vec<ServerRow>,
    /// Those of them that are there.
    living: BTreeSet<ServerId>,
    /// Those that were taken for dead, and have shown themselves since that look.
    risen: BTreeSet<ServerId>,
    /// How long what is overdue is left to another one.
    patience: Duration,
}

impl Siblings {
    /// How many others are there.
    pub(super) fn count(&self) -> usize {
        self.living.union(&self.risen).count()
    }

    pub(super) fn new(me: ServerRow, shared: bool, rules: &HearingRules) -> Siblings {
        let patience = rules.mark_every * LEFT_TO_OTHERS;
        let (known, living, risen) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        Siblings { me, shared, known, living, risen, patience }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    pub(super) fn alone(&self) -> bool {
        self.living.is_empty()
    }

    /// Takes in the rows. Returns whether it changes who is there.
    fn meet(&mut self, rows: Vec<ServerRow>, is_there: impl Fn(&ServerRow) -> bool) -> bool {
        let living = self.know(rows, is_there);
        self.risen.clear();
        let changed = living != self.living;
        self.living = living;
        changed
    }

    /// Looks again between two looks: one that is back since is not dead any more. What else its return means can wait.
    fn meet_again(&mut self, rows: Vec<ServerRow>, is_there: impl Fn(&ServerRow) -> bool) {
        self.risen = self.know(rows, is_there);
    }

    /// Keeps the others' rows. Returns who is there by them.
    fn know(&mut self, rows: Vec<ServerRow>, is_there: impl Fn(&ServerRow) -> bool) -> BTreeSet<ServerId> {
        self.known = rows.into_iter().filter(|row| row.id != self.me.id).collect();
        let there = self.known.iter().filter(|row| row.left_at.is_none() && is_there(row));
        there.map(|row| row.id).collect()
    }

    /// Another server, which is there, has this worker's link.
    pub(super) fn has_link_of(&self, row: &WorkerRow) -> bool {
        let is_there = |server| self.living.contains(&server) || self.risen.contains(&server);
        row.left_heard.is_none() && row.server.is_some_and(is_there)
    }

    /// By what is known here the worker's link is gone with its server, and nobody has said so yet.
    fn seems_orphaned(&self, row: &WorkerRow) -> bool {
        let elsewhere = row.server.is_some_and(|server| server != self.me.id);
        elsewhere && row.left_heard.is_none() && row.removed_at.is_none() && !self.has_link_of(row)
    }

    /// When the server that had the worker's link was last there for certain.
    fn last_beat(&self, row: &WorkerRow) -> Option<Heard> {
        self.known.iter().find(|server| Some(server.id) == row.server).map(|server| server.beat_heard)
    }

    /// Whether this server is the one of all that are there to do what has this key first.
    fn is_first_for(&self, key: u128) -> bool {
        let before = self.living.iter().filter(|id| **id < self.me.id).count();
        key % (self.living.len() as u128 + 1) == before as u128
    }

    /// How long what is due for a job is left to another server: of several, one is given the time to be first, so that
    /// they do not all write the same.
    fn leaves(&self, job: JobId) -> Duration {
        if self.is_first_for(job.0.as_u128()) { Duration::ZERO } else { self.patience }
    }

    /// Whether this server sees to what has been to do for a job for so long.
    pub(super) fn sees_to(&self, job: JobId, overdue: Duration) -> bool {
        overdue >= self.leaves(job)
    }

    /// Whether it sees to the log of an attempt that this server has nothing to do with.
    pub(super) fn sees_to_log(&self, attempt: AttemptId) -> bool {
        self.is_first_for(attempt.0.as_u128())
    }
}

/// A server was there so short ago, by its last mark, that it may still be.
fn is_there(row: &ServerRow, heard: Heard, rules: &HearingRules) -> bool {
    heard < row.beat_heard + rules.dead_after
}

/// How long one that may judge only so much later than the installation leaves a verdict to others.
fn awe(later: Duration, rules: &HearingRules) -> Duration {
    let share = later.div_duration_f64(rules.stretch).min(1.0);
    rules.mark_every * LEFT_TO_JUDGES - (rules.mark_every / 2).mul_f64(1.0 - share)
}

/// For one that starts: a server that was there at the last mark may be there still, however long ago that was by a clock
/// that somebody may have set. If it is not, hearing time will show.
pub(super) fn marked_to_the_end(row: &ServerRow, mark: &HearingRow, rules: &HearingRules) -> bool {
    row.left_at.is_none() && is_there(row, mark.clocks(mark.mark_at).heard, rules)
}

/// A new row for a server that starts. Nobody takes it for there before its start has come to its end: many that fail half-way
/// are no server that hears.
pub(super) fn register<S: Store>(
    store: &mut S,
    id: ServerId,
    address: &str,
    clocks: Clocks,
) -> Result<ServerRow, StoreError> {
    let row = ServerRow {
        id,
        generation: 0,
        address: address.to_owned(),
        started_at: clocks.now,
        beat_at: clocks.now,
        beat_heard: clocks.heard,
        left_at: Some(clocks.now),
    };
    let generation = store.register_server(&row, clocks.now - FORGOTTEN_AFTER)?;
    Ok(ServerRow { generation, ..row })
}

impl<S: Store> Core<S> {
    /// The start has come to its end.
    pub(super) fn is_there_now(&mut self) -> Result<(), StoreError> {
        self.siblings.me.left_at = None;
        Lease::ALL.into_iter().for_each(|lease| self.leases.hurry(lease));
        let mut round = self.listen()?;
        round.server.get_or_insert_with(|| self.siblings.me.clone());
        self.commit_alone(&mut round)
    }

    /// The others at the start.
    pub(super) fn find_siblings(&mut self) -> Result<(), StoreError> {
        let rules = self.hearing_rules;
        let heard = self.hearing.heard_at(self.tick, &rules);
        let rows = self.store.reader().servers()?;
        let shared = self.siblings.shared;
        self.siblings.meet(rows, |row| shared && is_there(row, heard, &rules));
        Ok(())
    }

    /// Looks up: who is there, and what was the last mark? Observations of this server's own links do not age while it
    /// did not listen. Fails where it did not and cannot read what became of them meanwhile: nothing may be decided then.
    pub(super) fn look_up(&mut self) -> Result<(), StoreError> {
        if !self.siblings.shared {
            return Ok(());
        }
        let rules = self.hearing_rules;
        self.catch_up();
        let before = self.hearing;
        let missed = self.hearing.wake(self.tick, &rules);
        // After commits were lost only what the rows say was heard: the time since their mark was deaf, for all of them.
        let fell_behind = self.forgotten.is_some();
        if missed.is_zero() && !fell_behind && !self.hearing.is_due(self.tick.now, &rules) {
            return Ok(());
        }
        if let Err(error) = self.meet_siblings() {
            tracing::warn!(%error, "the other servers' rows could not be read; they are tried again");
            if missed.is_zero() {
                return Ok(());
            }
            self.hearing.sleep_on(&before);
            return Err(error);
        }
        let tick = self.tick;
        let deaf = self.hearing.listen(tick, self.siblings.alone(), &rules).deaf;
        let alone_missed = missed.saturating_sub(deaf);
        if !alone_missed.is_zero() {
            tracing::warn!(
                missed_secs = alone_missed.as_secs_f64(),
                "this server did not listen for a while; it judges nobody before its workers had time to call in"
            );
            self.hearing.missed(alone_missed, tick, &rules);
            self.own_links_grow_younger(alone_missed);
        }
        Ok(())
    }

    fn meet_siblings(&mut self) -> Result<(), StoreError> {
        let reader = self.store.reader();
        if let Some(row) = reader.hearing()? {
            self.take_over_mark(row);
            self.catch_up();
        }
        self.compare_memory()?;
        self.look_for_restore()?;
        let rules = self.hearing_rules;
        let heard = self.hearing.heard_at(self.tick, &rules);
        let changed = self.siblings.meet(reader.servers()?, |row| is_there(row, heard, &rules));
        if changed {
            tracing::info!(others = self.siblings.living.len(), "the servers of this installation are others now");
            // Whatever the one that went has done last is to be known here, and what the one that came does from now on. What
            // follows from it for links here is seen where it is noticed: nothing is passed over.
            self.noticed.hurry();
            self.cache.clear();
            self.rebuild_index()?;
            self.check_soon(self.tick.now);
        }
        self.must_look_around |= changed || !self.siblings.known.is_empty();
        Ok(())
    }

    /// The newest mark, whoever made it. They only go forward: one that is older than what is known here was the last that is left.
    pub(super) fn take_over_mark(&mut self, row: HearingRow) {
        if row.mark_at < self.hearing.row.mark_at {
            self.forgotten = Some(MARK_BEHIND);
        }
        self.hearing.take_over(row, self.tick);
    }

    /// Whether what is due is this server's to look at now. If not, it is when the others have had their time.
    pub(super) fn sees_to(&mut self, due: Due, round: &mut Round) -> bool {
        let wait = self.siblings.leaves(due.job).max(self.leaves_to_judges(due, round));
        let ours_from = due.at + wait;
        if ours_from > round.now {
            round.look_again(ours_from);
        }
        ours_from <= round.now
    }

    /// For how long a verdict is left to others, which may pass it before this server may: if it looked, it would only
    /// put it off, until it may itself.
    fn leaves_to_judges(&mut self, due: Due, round: &Round) -> Duration {
        let Clocks { heard, verdicts_from, .. } = round.clocks;
        let later = verdicts_from.since(self.hearing.row.verdicts_from.max(heard));
        let Some(step) = due.step.filter(|_| !later.is_zero()) else { return Duration::ZERO };
        let Ok(cached) = self.cache.load(due.job, &mut self.store, &self.definitions) else { return Duration::ZERO };
        match cached.job.state(step) {
            State::Recovering(_) | State::Queued(Queued { offer: None, .. }) => awe(later, &self.hearing_rules),
            _ => Duration::ZERO,
        }
    }

    /// The installation's time is that of the newest mark, whoever made it: one that starts takes a clock as it is, while
    /// the others follow one that was set without a leap.
    fn catch_up(&mut self) {
        let behind = self.hearing.row.mark_at.since(self.tick.now);
        self.tick.now = self.tick.now + behind;
        self.hearing.set_ahead(behind);
    }

    /// Whether the rows still say what this server has seen them say.
    pub(super) fn compare_memory(&mut self) -> Result<(), StoreError> {
        let reader = self.store.reader();
        let last_event = reader.last_event()?;
        let servers = if self.siblings.shared { reader.servers()? } else { Vec::new() };
        self.compare_with(last_event, &servers);
        Ok(())
    }

    pub(super) fn compare_with(&mut self, last_event: u64, servers: &[ServerRow]) {
        if last_event < self.noticed.seen {
            self.forgotten = Some(EVENTS_GONE);
        } else if self.siblings.shared {
            // Others may have written more since than was lost; but nobody else writes this, nor deletes it so soon.
            let me = &self.siblings.me;
            let own = servers.iter().find(|row| row.id == me.id);
            let kept_until = me.beat_at + FORGOTTEN_AFTER;
            if own.map_or(self.tick.now < kept_until, |own| own.beat_at < me.beat_at) {
                self.forgotten = Some(ROW_BEHIND);
            }
        }
    }

    /// What was seen on this server's links is as old as what it could see.
    fn own_links_grow_younger(&mut self, by: Duration) {
        let ids: Vec<WorkerId> = self.roster.iter().filter(|(_, w)| w.link.is_some()).map(|(id, _)| id).collect();
        for id in ids {
            self.roster.update(id, |w| {
                if let Some(w) = w {
                    w.last_beat = w.last_beat + by;
                }
            });
        }
        self.beats.grow_younger(by);
        for link in self.links.values_mut() {
            link.sent.values_mut().for_each(|sent| sent.at = sent.at + by);
        }
        self.knocks.values_mut().for_each(|knock| knock.grow_younger(by));
    }

    /// The rows of all workers, compared with what is known here: who hangs on which server, who was moved, removed,
    /// drained, and whose server is gone.
    pub(super) fn look_around(&mut self, round: &mut Round) -> Result<(), StoreError> {
        self.load_pause()?;
        self.hear_of_losses()?;
        let rows = self.store.reader().workers()?;
        if self.siblings.shared && rows.iter().any(|row| self.siblings.seems_orphaned(row)) {
            // These rows may be younger than what is known of their servers: one that was away for long is back with them.
            let (servers, heard, rules) = (self.store.reader().servers()?, round.clocks.heard, self.hearing_rules);
            self.siblings.meet_again(servers, |server| is_there(server, heard, &rules));
        }
        let on_record: BTreeSet<WorkerId> = rows.iter().map(|row| row.id).collect();
        for row in rows {
            let link = self.note_row(&row);
            // Another server may have let it in before it knew of the loss, and has not asked it for what it keeps.
            if !row.unread && row.after_loss == self.last_known_loss() {
                self.has_reported(row.id, row.epoch);
            }
            match link {
                Some(link) if self.has_outlived(link, &row) => {
                    self.let_go(link, &row);
                    self.note_absent(&row, round);
                }
                Some(link) if row.removed_at.is_some() => self.dismiss_removed(link, row.id, round.clocks.heard),
                // It is here, and by its row it is away: nobody else would know.
                Some(link) if self.links.get(&link).is_some_and(|known| row.epoch < known.epoch) => {
                    self.forgotten = Some(HELLO_GONE);
                }
                Some(_) => self.say_willingness(&row, round),
                None => self.note_absent(&row, round),
            }
        }
        self.let_strangers_go(&on_record, round.clocks.heard);
        self.links_gone(round);
        Ok(())
    }

    /// What a worker here said of new work may have come to nothing with the round in which it did.
    fn say_willingness(&self, row: &WorkerRow, round: &mut Round) {
        let Some(drain) = self.roster.get(row.id).map(|worker| worker.drain) else { return };
        let unwilling = drain.own || drain.caretaker;
        if unwilling != row.unwilling {
            round.unwilling.insert(row.id, (row.epoch, unwilling));
        }
    }

    /// Links of workers that another server has deleted, which had not heard of them for long: this one has not been heard itself. They
    /// are to come again, and are told then. Not those who are about to go.
    fn let_strangers_go(&mut self, on_record: &BTreeSet<WorkerId>, heard: Heard) {
        let window = self.config.rules.recovery_window;
        self.strangers_gone.retain(|_, (_, since)| heard < *since + window);
        let is_stranger = |known: &Link| !known.dismissed && !on_record.contains(&known.worker);
        let links: Vec<LinkId> = self.links.iter().filter(|(_, known)| is_stranger(known)).map(|(id, _)| *id).collect();
        for link in links {
            let Some(old) = self.links.remove(&link) else { continue };
            tracing::warn!(worker = %old.worker, "a worker with a link here is not on record any more");
            self.strangers_gone.insert(old.worker, (old.epoch, heard));
            refuse(&old.sender, RefusedCode::GoingAway, "this worker is not on record any more; connect again");
            self.roster.update(old.worker, |w| {
                if let Some(w) = w {
                    w.link = None;
                }
            });
        }
        // Nor does anybody ask for those who are deleted, once they have nothing here.
        let is_gone = |id: &WorkerId, w: &Worker| !on_record.contains(id) && w.link.is_none() && w.held.is_empty();
        let gone: Vec<WorkerId> = self.roster.iter().filter(|(id, w)| is_gone(id, w)).map(|(id, _)| id).collect();
        gone.into_iter().for_each(|id| self.roster.update(id, |w| *w = None));
        self.count_connected();
    }

    /// The worker has a newer link elsewhere, or this one was taken for lost while this server was not heard.
    fn has_outlived(&self, link: LinkId, row: &WorkerRow) -> bool {
        let Some(epoch) = self.links.get(&link).map(|l| l.epoch) else { return false };
        row.epoch > epoch || (row.epoch == epoch && row.left_heard.is_some())
    }

    /// Ends a link that counts no more; what it held is somebody else's to say.
    fn let_go(&mut self, link: LinkId, row: &WorkerRow) {
        if let Some(old) = self.links.remove(&link) {
            refuse(&old.sender, RefusedCode::GoingAway, "this link was taken for lost; connect again");
        }
        tracing::info!(worker = row.name, id = %row.id, "a worker's link here was overtaken");
        self.roster.update(row.id, |w| {
            if let Some(w) = w {
                w.link = None;
            }
        });
        self.count_connected();
        self.knock_after(link, row.id);
    }

    /// A worker without a link here: another server has it, or nobody.
    fn note_absent(&mut self, row: &WorkerRow, round: &mut Round) {
        let never_here = row.epoch == Epoch::default();
        if never_here || row.removed_at.is_some() {
            return;
        }
        if self.siblings.has_link_of(row) {
            return self.roster.know_elsewhere(row, round.clocks.heard);
        }
        let (heard, window) = (round.clocks.heard, self.config.rules.recovery_window);
        let left = row.left_heard.unwrap_or_else(|| self.died_at(row, heard));
        if row.left_heard.is_none() {
            round.left.insert(row.id, (row.epoch, left));
        }
        let concerns = self.roster.get(row.id).is_some_and(|w| !w.held.is_empty() || w.elsewhere);
        if concerns || heard < left + window {
            self.roster.know(row, left);
        }
    }

    /// Since when a link is gone that went with its server: not before that can have answered anybody.
    fn died_at(&self, row: &WorkerRow, heard: Heard) -> Heard {
        let beat = self.siblings.last_beat(row).map(|beat| beat + self.hearing_rules.afterlife);
        beat.map_or(heard, |since| since.min(heard))
    }

    /// The server says that it goes, so that nobody waits for its marks.
    pub fn leave(&mut self) -> Result<(), StoreError> {
        let clocks = self.hearing.clocks(self.tick.now);
        let mut round = Round::new(clocks);
        self.leave_word_of_a_loss(&mut round)?;
        // It was there until now: its workers' windows begin here, not when it started.
        let (beat_at, beat_heard) = (clocks.now, clocks.heard);
        round.server = Some(ServerRow { beat_at, beat_heard, left_at: Some(clocks.now), ..self.siblings.me.clone() });
        self.commit_alone(&mut round)
    }
}
