//! What other servers have changed, and what follows from it for the links of this one.
//!
//! Nobody says so: the numbers of events are asked for twice a second. Of every job that somebody else moved the queue and
//! the roster are read anew, and each attempt that a link here was told of is held against its row: what does the row
//! demand of this link, and was it said already?

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::state::{StopCause, StopMode};
use engine::verdict::Held;
use engine::{AttemptId, Epoch, JobId, State, StepIx, Verdict, WorkerId};
use protocol::attempt::{StopReason, Ticket};
use protocol::link::ServerMessage;
use store::{Batch, Committed, Store, StoreError};

use crate::dispatch::{LinkId, Place};

use super::amnesia::{EVENTS_GONE, HELLO_GONE};
use super::cache::LoadError;
use super::core::Core;
use super::effects::{self, Indexes};
use super::losses::Seen;
use super::round::{NO_FENCE, Round};

/// A change elsewhere is seen within this, and what it demands is done within a second.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long what somebody else has just moved is left alone, where nobody here has anything of it and none of its steps waits: most
/// of it is over by then, and to read all of that would cost as much as to do it.
const LEFT_ALONE: Duration = Duration::from_millis(250);

/// Changes that are taken in at a time; the rest follow in the next round.
const CHANGES_PER_LOOK: usize = 10_000;

/// What a link was told of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    pub place: Place,
    pub ticket: Ticket,
    pub held: Held,
    /// By the rows it had leave to start when it was spoken of.
    pub granted: bool,
    /// The worker was ordered to end it.
    pub stop: Option<StopMode>,
}

/// How far this server has read what all of them did.
#[derive(Debug, Default)]
pub(super) struct Noticed {
    /// The number of the last event that was looked at.
    pub cursor: u64,
    /// The highest number that was ever seen: it must not be gone.
    pub seen: u64,
    /// Events after that which are this server's own, and whose jobs they are about.
    own: BTreeMap<u64, JobId>,
    /// Jobs that are to be read anew.
    moved: BTreeSet<JobId>,
    /// Jobs that others have just moved.
    fresh: BTreeSet<JobId>,
    /// Jobs that are to be read anew then: a step of theirs may be offered, or they could not be read.
    later: BTreeSet<(engine::Time, JobId)>,
    /// Those of them that somebody else has moved, and that can wait.
    left_alone: BTreeSet<JobId>,
    next_look: engine::Time,
}

impl Noticed {
    /// Everything up to this number is known.
    pub(super) fn start(&mut self, cursor: u64) {
        *self = Noticed { cursor, seen: cursor, ..Noticed::default() };
    }

    /// These are read anew with the next round.
    pub(super) fn read_again(&mut self, jobs: BTreeSet<JobId>) {
        self.moved.extend(jobs);
    }

    /// The job is read anew then.
    pub(super) fn look_at(&mut self, job: JobId, at: engine::Time) {
        self.later.insert((at, job));
    }

    /// Nobody here has anything of it: it can wait. However often it moves meanwhile, it is looked at then.
    fn leave_alone(&mut self, job: JobId, now: engine::Time) {
        if self.left_alone.insert(job) {
            self.look_at(job, now + LEFT_ALONE);
        }
    }

    /// Somebody says that there is something to see.
    pub(super) fn hurry(&mut self) {
        self.next_look = engine::Time::default();
    }
}

impl<S: Store> Core<S> {
    /// When the next look is due. One that is alone looks when it is awake anyway.
    pub(super) fn next_notice(&self) -> engine::Time {
        let later = self.noticed.later.first().map_or(engine::Time::MAX, |(at, _)| *at);
        match (self.noticed.moved.is_empty(), self.siblings.alone()) {
            (false, _) => self.tick.now,
            (true, true) => later,
            (true, false) => later.min(self.noticed.next_look),
        }
    }

    /// This server's own commit is no news, and what it lost to others is.
    pub(super) fn note_committed(&mut self, batch: &Batch, committed: &Committed) {
        let numbers = committed.event_ids.iter().copied().zip(batch.events.iter().map(|event| event.job));
        let own: BTreeMap<u64, JobId> = numbers.filter_map(|(number, job)| Some((number?, job))).collect();
        if own.first_key_value().is_some_and(|(number, _)| *number <= self.noticed.seen) {
            // Numbers only grow: those that are given out again were lost.
            self.forgotten = Some(EVENTS_GONE);
        }
        self.noticed.seen =
            own.last_key_value().map_or(self.noticed.seen, |(number, _)| self.noticed.seen.max(*number));
        if self.siblings.is_shared() {
            self.noticed.own.extend(own);
        }
        self.noticed.moved.extend(&committed.conflicts);
    }

    /// Takes in what others did since the last look, if it is time for one.
    pub(super) fn notice(&mut self, round: &mut Round) {
        if self.siblings.is_shared() && round.now >= self.noticed.next_look {
            self.noticed.next_look = round.now + self.look_every();
            if let Err(error) = self.read_changes() {
                tracing::warn!(%error, "what other servers did could not be read; it is tried again");
            }
            if !self.siblings.alone() {
                self.publish_elsewhere(self.noticed.fresh.clone(), Vec::new());
            }
        }
        while let Some((at, job)) = self.noticed.later.first().copied()
            && at <= round.now
        {
            self.noticed.later.remove(&(at, job));
            self.noticed.left_alone.remove(&job);
            self.noticed.moved.insert(job);
        }
        let fresh = std::mem::take(&mut self.noticed.fresh);
        let fresh: BTreeSet<JobId> = fresh.difference(&self.noticed.moved).copied().collect();
        let mut moved = Vec::new();
        for job in std::mem::take(&mut self.noticed.moved).into_iter().chain(fresh.iter().copied()) {
            match self.aside.get(&job) {
                // What follows from its rows cannot be written now.
                Some(until) => self.noticed.look_at(job, *until),
                None => moved.push(job),
            }
        }
        if moved.is_empty() {
            return;
        }
        self.check_soon(round.now);
        let mut told = self.told_here();
        let moved = self.pass_over(moved, &fresh, &told);
        round.heeded.extend(&moved);
        // All of them first: what follows from one may be about another.
        self.cache.load_anew(&moved, &mut self.store, &self.definitions);
        for job in moved {
            self.index_anew(job);
            self.heed(job, &told.remove(&job).unwrap_or_default(), round);
        }
    }

    /// What links here were told, by the jobs that it is about.
    fn told_here(&self) -> BTreeMap<JobId, Vec<(LinkId, AttemptId, Word)>> {
        let mut told: BTreeMap<JobId, Vec<(LinkId, AttemptId, Word)>> = BTreeMap::new();
        for (link, known) in &self.links {
            for (attempt, word) in &known.words {
                told.entry(word.place.job).or_default().push((*link, *attempt, *word));
            }
        }
        told
    }

    /// Most that another server moves is over when it is looked at, or will be soon, and nobody here has anything of it: to read all of
    /// that would cost as much as to do it. Returns the others.
    fn pass_over<T>(&mut self, moved: Vec<JobId>, fresh: &BTreeSet<JobId>, told: &BTreeMap<JobId, T>) -> Vec<JobId> {
        let (mut look_at, unknown): (Vec<JobId>, Vec<JobId>) =
            moved.into_iter().partition(|job| told.contains_key(job));
        let Ok(open) = self.store.open_among(&unknown) else {
            // Each is read by itself, and says why it cannot be.
            look_at.extend(unknown);
            return look_at;
        };
        let open: BTreeMap<JobId, bool> = open.into_iter().map(|job| (job.id, job.has_queued)).collect();
        for job in unknown {
            let is_open = open.get(&job);
            if is_open.is_some_and(|has_queued| *has_queued || !fresh.contains(&job)) {
                look_at.push(job);
                continue;
            }
            // What was known of it is not true any more.
            self.cache.drop_job(job);
            self.unindex(job);
            if is_open.is_some() {
                self.noticed.leave_alone(job, self.tick.now);
            }
        }
        look_at
    }

    /// Who is alone looks as well: others may have come and gone between two marks.
    fn look_every(&self) -> Duration {
        if self.siblings.alone() { self.hearing_rules.mark_every } else { LOOK_EVERY }
    }

    fn read_changes(&mut self) -> Result<(), StoreError> {
        let changes = self.store.changed_since(self.noticed.cursor, CHANGES_PER_LOOK)?;
        if changes.len() == CHANGES_PER_LOOK {
            self.noticed.hurry();
        }
        for (number, job) in changes {
            self.noticed.cursor = self.noticed.cursor.max(number);
            self.noticed.seen = self.noticed.seen.max(number);
            match self.noticed.own.remove(&number) {
                Some(ours) if ours == job => {}
                // Another server was given a number that this one had: its own event is gone.
                Some(_) => self.forgotten = Some(EVENTS_GONE),
                None => drop(self.noticed.fresh.insert(job)),
            }
        }
        let later = self.noticed.own.split_off(&(self.noticed.cursor + 1));
        let missing = std::mem::replace(&mut self.noticed.own, later);
        // Those of jobs that were deleted are not lost: this server slept for longer than such a job is kept.
        if missing.into_values().any(|job| !self.was_deleted(job)) {
            self.forgotten = Some(EVENTS_GONE);
        }
        Ok(())
    }

    /// The job as its rows have it, and queue and roster with it. Not for one that this round has changed: it is ahead of
    /// its rows.
    fn read_anew(&mut self, job: JobId) {
        self.cache.drop_job(job);
        self.index_anew(job);
    }

    /// Queue and roster, as the job has them.
    fn index_anew(&mut self, job: JobId) {
        let loaded = self.cache.load(job, &mut self.store, &self.definitions);
        if let Err(LoadError::Store(StoreError::Unavailable { .. })) = loaded {
            return self.noticed.look_at(job, self.tick.now + LOOK_EVERY);
        }
        let is_there = loaded.is_ok();
        self.unindex(job);
        let Some(cached) = self.cache.get(job).filter(|_| is_there) else { return };
        let mut indexes = Indexes { queue: &mut self.queue, roster: &mut self.roster, noticed: &mut self.noticed };
        for (ix, step) in (0..).map(StepIx).zip(&cached.job.steps) {
            indexes.enter(&cached.job, ix, step, self.tick.now);
            if let Some((worker, attempt)) = effects::holder(&step.state) {
                indexes.hold(&cached.job, ix, worker, attempt);
            }
        }
    }

    fn unindex(&mut self, job: JobId) {
        self.queue.remove_job(job);
        for attempt in self.roster.release_job(job) {
            self.queue.release(attempt);
        }
    }

    /// Another server may have moved the job since it was read: what follows from it is worth a look at its rows.
    pub(super) fn doubt(&mut self, job: JobId, round: &mut Round) -> bool {
        let doubtful = !self.siblings.alone() && round.first_doubt(job);
        if doubtful {
            self.cache.drop_job(job);
        }
        doubtful
    }

    /// What the rows say that a worker holds: whoever had its link before may have given it something just now, or heard
    /// of its end. Of jobs that this round has changed the rows are behind.
    pub(super) fn learn_held(&mut self, worker: WorkerId, round: &Round) {
        if self.siblings.alone() {
            return;
        }
        let rows = match self.store.held_steps() {
            Ok(rows) => rows,
            Err(error) => {
                self.cache.missed(&error);
                return tracing::warn!(%worker, %error, "what a worker holds could not be read");
            }
        };
        let written = rows.iter().filter(|row| row.worker == worker).map(|row| (row.attempt, row.job)).collect();
        let believed = self.roster.get(worker).map(|w| w.held.iter().map(|(id, place)| (*id, place.job)).collect());
        let believed: BTreeSet<(AttemptId, JobId)> = believed.unwrap_or_default();
        let differing: BTreeSet<JobId> = believed.symmetric_difference(&written).map(|(_, job)| *job).collect();
        differing.into_iter().filter(|job| !round.touches(*job)).for_each(|job| self.read_anew(job));
    }

    /// Does for this server's links what the job's rows demand.
    fn heed(&mut self, job: JobId, told: &[(LinkId, AttemptId, Word)], round: &mut Round) {
        for (link, attempt, word) in told {
            self.heed_word(*link, *attempt, *word, round);
        }
        for (link, attempt, place, epoch) in self.held_here(job) {
            let here = self.links.get(&link).map(|l| l.epoch).unwrap_or_default();
            let brought = told.iter().any(|(_, id, _)| *id == attempt);
            match epoch.cmp(&here) {
                Ordering::Less if brought && self.is_hello_gone(link) => self.forgotten = Some(HELLO_GONE),
                // It was given on a link before this one, and was not brought along.
                Ordering::Less => self.link_gone(attempt, place, Seen::On(epoch), round),
                Ordering::Equal if !brought => self.say_again(link, place, round),
                // The worker has a newer link, which is not known here yet.
                Ordering::Equal | Ordering::Greater => {}
            }
        }
    }

    /// By its row the worker never had the link that it has here.
    fn is_hello_gone(&mut self, link: LinkId) -> bool {
        let Some((worker, epoch)) = self.links.get(&link).map(|known| (known.worker, known.epoch)) else {
            return false;
        };
        match self.store.worker(worker) {
            Ok(row) => row.is_some_and(|row| row.epoch < epoch),
            Err(error) => {
                self.cache.missed(&error);
                false
            }
        }
    }

    /// What the job's steps have with workers that are connected here.
    fn held_here(&self, job: JobId) -> Vec<(LinkId, AttemptId, Place, Epoch)> {
        let Some(cached) = self.cache.get(job) else { return Vec::new() };
        let steps = (0..).map(StepIx).zip(&cached.job.steps);
        let held = steps.filter_map(|(step, s)| {
            let live = s.state.live().map(|l| (l.worker, l.attempt, l.epoch));
            let (worker, attempt, epoch) = live.or_else(|| s.state.offer().map(|o| (o.worker, o.attempt, o.epoch)))?;
            Some((self.effect_target(worker)?, attempt, Place { job, step }, epoch))
        });
        held.collect()
    }

    /// What is on record for this link, and was not said on it: an offer of which nobody knows that it was sent; or what the
    /// worker has run before commits were lost, and another server has put on record again.
    fn say_again(&mut self, link: LinkId, place: Place, round: &mut Round) {
        let Some(cached) = self.cache.get(place.job) else { return };
        let Some(offer) = cached.job.state(place.step).offer().copied() else { return self.ask_again(link, round) };
        let spec = super::attempt_spec::build(&cached.job, place.step, &offer, &self.config);
        // Or it was said, and has run and was forgotten, and the rows have gone back: its worker would take it for new, and what
        // it keeps of it would not come up.
        let compared = self.compare_memory();
        if compared.is_err() || self.forgotten.is_some() {
            return self.noticed.look_at(place.job, self.tick.now + LOOK_EVERY);
        }
        round.outgoing.push((Some(place.job), link, ServerMessage::Offer { number: 0, spec: Box::new(spec) }));
    }

    fn heed_word(&mut self, link: LinkId, attempt: AttemptId, word: Word, round: &mut Round) {
        let Word { place, ticket, held, granted: _, stop } = word;
        let whole = self.log_position(link, attempt, round).is_some_and(|p| p.complete);
        let known = self.engine_ticket(ticket, place);
        let Some(cached) = self.cache.get(place.job) else { return };
        let state = cached.job.state(place.step);
        let current = state.ticket() == Some((attempt, known.fence));
        if current && state.offer().is_some() {
            return;
        }
        let past = if current { None } else { self.past(attempt, whole) };
        let Some(cached) = self.cache.get(place.job) else { return };
        let demanded = engine::verdict(&cached.job, known, held, past);
        let message = match demanded {
            Verdict::Go => Some(ServerMessage::Go { number: 0, ticket }),
            Verdict::Forget if held == Held::Waiting => Some(ServerMessage::Withdraw { ticket }),
            Verdict::Stop(mode) if stop.is_none_or(|said| said == StopMode::Graceful && mode == StopMode::Kill) => {
                Some(self.stop_order(place, ticket, mode))
            }
            Verdict::Continue | Verdict::SendResult | Verdict::Forget | Verdict::Finish | Verdict::Stop(_) => None,
        };
        if let Some(message) = message {
            round.outgoing.push((Some(place.job), link, message));
        }
    }

    fn stop_order(&self, place: Place, ticket: Ticket, mode: StopMode) -> ServerMessage {
        let cached = self.cache.get(place.job);
        let cause = cached.and_then(|cached| match cached.job.state(place.step) {
            State::Cancelling(cancelling) => Some(cancelling.cause),
            _ => None,
        });
        let known = cached.filter(|c| place.step.get() < c.job.steps.len());
        let grace = known.map(|c| c.job.def(place.step).stop.grace).unwrap_or_default();
        let reason = match (cause, mode) {
            (Some(StopCause::StepTimeout), _) => StopReason::Timeout,
            (
                Some(StopCause::Cancel | StopCause::JobTimeout | StopCause::Sibling | StopCause::RunnerStale { .. }),
                _,
            )
            | (None, StopMode::Graceful) => StopReason::Cancelled,
            (None, StopMode::Kill) => StopReason::Superseded,
        };
        effects::stop_message(ticket, mode, reason, grace)
    }
}

/// A worker that cannot read its own record of an attempt knows it without a fence, and looks up no other ticket.
pub(super) fn in_its_words(words: &BTreeMap<AttemptId, Word>, message: &mut ServerMessage) {
    if let ServerMessage::Stop { ticket, .. }
    | ServerMessage::Forget { ticket, .. }
    | ServerMessage::Withdraw { ticket } = message
        && let Some(word) = words.get(&AttemptId(ticket.attempt))
        && word.ticket.fence == NO_FENCE
    {
        *ticket = word.ticket;
    }
}

/// What an order makes of what was said before.
pub(super) fn said(words: &mut BTreeMap<AttemptId, Word>, message: &ServerMessage, place: Option<Place>) {
    match message {
        ServerMessage::Offer { spec, .. } => {
            if let Some(place) = place {
                let word = Word { place, ticket: spec.ticket, held: Held::Waiting, granted: false, stop: None };
                words.insert(AttemptId(spec.ticket.attempt), word);
            }
        }
        ServerMessage::Go { ticket, .. } => {
            if let Some(word) = words.get_mut(&AttemptId(ticket.attempt)) {
                (word.held, word.granted) = (Held::Running, true);
            }
        }
        ServerMessage::Stop { ticket, mode, .. } => {
            if let Some(word) = words.get_mut(&AttemptId(ticket.attempt)) {
                word.stop = Some(match mode {
                    protocol::attempt::StopMode::Graceful => StopMode::Graceful,
                    protocol::attempt::StopMode::Kill => StopMode::Kill,
                });
            }
        }
        ServerMessage::Forget { ticket, .. } | ServerMessage::Withdraw { ticket } => {
            words.remove(&AttemptId(ticket.attempt));
        }
        _ => {}
    }
}
