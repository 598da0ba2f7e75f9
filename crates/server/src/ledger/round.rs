//! One round: the events that are decided together, and the batch that they come to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use engine::attempt::Attempt;
use engine::definition::Definition;
use engine::event::Note;
use engine::{
    AttemptId, Changes, Clocks, Continuation, Epoch, Event, Fence, Heard, Job, JobId, LastAttempt, Notice, StepIx,
    Time, WorkerId,
};
use planted::Bug;
use protocol::link::{ServerMessage, Welcome};
use serde::Serialize;
use serde_json::Value;
use store::codec::{self, JobMeta};
use store::read::StaleAttempt;
use store::rows::{
    AttemptRow, BreakerRow, DefinitionRow, FleetChange, IdempotencyRow, LateOutcome, LineageRow, OutboxMove, OutboxRow,
    QuarantineRow, ServerRow, TriggerRow, WorkerHello,
};
use store::{
    Batch, Claim, Committed, JobWrite, LogAppend, LogClose, LogDeadline, LogMark, Mark, Store, StoreError, Tenure,
};

use crate::dispatch::{self, LinkId, Place};

use super::again::{AgainError, Settled};
use super::breaker::Breaker;
use super::cache::{Cache, Cached, LoadError};
use super::command::{Command, EventError, LinkEvent, Submit, SubmitError, Submitted};
use super::core::Core;
use super::effects::Indexes;
use super::fleet::{FleetAnswer, FleetError};
use super::groups::Admitted;
use super::hearing::Listened;
use super::notice::LOOK_EVERY;
use super::notices;
use super::outbox::Parcel;
use super::schedules::{Moved, TriggerError};
use super::told::{self, Told};

/// Offers made in one round; the rest follow in the next, which starts at once.
const OFFERS_PER_ROUND: usize = 2_000;

/// The fence of an attempt whose record its worker cannot read.
pub(super) const NO_FENCE: u64 = 0;

/// What has been decided, and what is to happen once it is committed.
pub(super) struct Round {
    pub now: Time,
    pub clocks: Clocks,
    /// The mark that goes into its batch.
    pub listened: Option<Listened>,
    /// What the other servers shall see of this one.
    pub server: Option<ServerRow>,
    pub claims: Vec<Claim>,
    /// Leases by which something of it is this server's to do.
    pub under: BTreeSet<Tenure>,
    touched: BTreeMap<JobId, Touched>,
    /// Those of them that have a concurrency group, by that.
    in_groups: BTreeMap<Arc<str>, BTreeSet<JobId>>,
    pub(super) admitted: BTreeMap<Arc<str>, Admitted>,
    /// Groups that somebody has left in this round, or may have.
    pub(super) left_groups: BTreeSet<Arc<str>>,
    /// Jobs that are over and whose parents do not know it yet, and whether somebody is telling them.
    pub(super) to_tell: VecDeque<JobId>,
    pub(super) is_telling: bool,
    /// Jobs that were read again in this round.
    doubted: BTreeSet<JobId>,
    /// Jobs that others had moved, and whose links here were seen to in this round.
    pub heeded: BTreeSet<JobId>,
    /// Rows that could not be read when somebody spoke of them.
    pub unread: Option<StoreError>,
    /// Somebody has asked for leave to start in it.
    starts: bool,
    attempts: BTreeMap<AttemptId, AttemptRow>,
    notes: Vec<(JobId, Note)>,
    definitions: BTreeMap<[u8; 32], DefinitionRow>,
    idempotency: Vec<IdempotencyRow>,
    pub late_outcomes: Vec<LateOutcome>,
    pub quarantine: Vec<QuarantineRow>,
    pub logs: Vec<LogAppend>,
    pub marks: Vec<LogMark>,
    /// The last line of attempts that say how they ended.
    pub log_ends: BTreeMap<AttemptId, u64>,
    /// Attempts whose end this round puts on record, with their jobs.
    pub ends: BTreeMap<AttemptId, JobId>,
    /// Logs that are known to be whole, so that they need no deadline.
    pub whole: BTreeSet<AttemptId>,
    pub log_deadlines: Vec<LogDeadline>,
    pub log_closes: Vec<LogClose>,
    pub outbox: Vec<OutboxRow>,
    pub outbox_moves: Vec<OutboxMove>,
    /// Deliveries that begin once it is on record that they do.
    pub parcels: Vec<Parcel>,
    /// What is to be delivered was looked at.
    pub posted: bool,
    pub beats: store::Beats,
    pub seen: BTreeMap<WorkerId, Time>,
    pub hellos: Vec<WorkerHello>,
    /// Those of them that came with all that they have.
    pub reported: Vec<Report>,
    pub left: BTreeMap<WorkerId, (Epoch, Heard)>,
    pub unwilling: BTreeMap<WorkerId, (Epoch, bool)>,
    pub breaker: Option<BreakerRow>,
    pub breaker_ended: Option<Time>,
    /// What was thought of ourselves before this round, if that has changed.
    pub breaker_before: Option<Box<Breaker>>,
    pub used_epochs: BTreeMap<WorkerId, Epoch>,
    pub confirmed: Vec<(AttemptId, Fence)>,
    pub begun: Vec<(AttemptId, Fence)>,
    /// Sent before everything else of the round.
    pub welcomes: Vec<(LinkId, Welcome)>,
    pub lineage: Vec<LineageRow>,
    ties: BTreeSet<(JobId, JobId)>,
    pub fleet: Vec<FleetChange>,
    pub(super) triggers: BTreeMap<String, Moved>,
    meta: Vec<(&'static str, String)>,
    /// To be sent after the commit; dropped with the job if that conflicts.
    pub outgoing: Vec<(Option<JobId>, LinkId, ServerMessage)>,
    /// What returning workers said that they had kept of each attempt: events and log lines.
    pub buffered: BTreeMap<AttemptId, u64>,
    /// For the server's own log, after the commit.
    pub told: Vec<Told>,
    /// Notices of jobs, for the same.
    pub notices: Vec<(JobId, Notice)>,
    /// Links that are closed once all else is sent.
    pub hang_up: Vec<LinkId>,
    /// Links whose end is among the round's commands.
    pub hung_up: BTreeSet<LinkId>,
    /// Answers, in the order of the commands.
    pub submitted: VecDeque<Result<Submitted, SubmitError>>,
    pub answered: VecDeque<(JobId, Result<(), EventError>)>,
    pub recovered: VecDeque<Result<Vec<StaleAttempt>, EventError>>,
    pub settled: VecDeque<Result<Settled, AgainError>>,
    pub ordered: VecDeque<Result<FleetAnswer, FleetError>>,
    pub triggered: VecDeque<Result<TriggerRow, TriggerError>>,
    pub checked: bool,
    /// Something that is due stays so, and must not be looked at without a pause.
    pub leaves_due: bool,
    /// When the first of what is due and was not seen to, for the sake of others or of the database, is looked at again.
    look_again_at: Option<Time>,
    /// Part of a batch that was refused: its commands and nothing else.
    pub piece: bool,
    /// Every command of this round is answered with this.
    pub poisoned: Option<String>,
}

/// A worker has said all that it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub worker: WorkerId,
    pub epoch: Epoch,
    /// The last loss of commits that was known then. One that is noticed later in the same round is not answered by it.
    pub after: Option<u64>,
}

struct Touched {
    /// The version in the database; none for a new job.
    base: Option<u64>,
    steps: BTreeSet<StepIx>,
}

impl Round {
    pub(super) fn new(clocks: Clocks) -> Round {
        Round {
            now: clocks.now,
            clocks,
            listened: None,
            server: None,
            claims: Vec::new(),
            under: BTreeSet::new(),
            touched: BTreeMap::new(),
            in_groups: BTreeMap::new(),
            to_tell: VecDeque::new(),
            is_telling: false,
            admitted: BTreeMap::new(),
            left_groups: BTreeSet::new(),
            doubted: BTreeSet::new(),
            heeded: BTreeSet::new(),
            unread: None,
            starts: false,
            attempts: BTreeMap::new(),
            notes: Vec::new(),
            definitions: BTreeMap::new(),
            idempotency: Vec::new(),
            late_outcomes: Vec::new(),
            quarantine: Vec::new(),
            logs: Vec::new(),
            marks: Vec::new(),
            log_ends: BTreeMap::new(),
            ends: BTreeMap::new(),
            whole: BTreeSet::new(),
            log_deadlines: Vec::new(),
            log_closes: Vec::new(),
            outbox: Vec::new(),
            outbox_moves: Vec::new(),
            parcels: Vec::new(),
            posted: false,
            beats: store::Beats::default(),
            seen: BTreeMap::new(),
            lineage: Vec::new(),
            ties: BTreeSet::new(),
            confirmed: Vec::new(),
            begun: Vec::new(),
            fleet: Vec::new(),
            triggers: BTreeMap::new(),
            meta: Vec::new(),
            hellos: Vec::new(),
            reported: Vec::new(),
            left: BTreeMap::new(),
            unwilling: BTreeMap::new(),
            breaker: None,
            breaker_ended: None,
            breaker_before: None,
            used_epochs: BTreeMap::new(),
            welcomes: Vec::new(),
            outgoing: Vec::new(),
            buffered: BTreeMap::new(),
            told: Vec::new(),
            notices: Vec::new(),
            hang_up: Vec::new(),
            hung_up: BTreeSet::new(),
            submitted: VecDeque::new(),
            answered: VecDeque::new(),
            recovered: VecDeque::new(),
            settled: VecDeque::new(),
            ordered: VecDeque::new(),
            triggered: VecDeque::new(),
            checked: false,
            leaves_due: false,
            look_again_at: None,
            piece: false,
            poisoned: None,
        }
    }

    fn touch(&mut self, job: JobId, base: Option<u64>, changes: &Changes) {
        let touched = self.touched.entry(job).or_insert(Touched { base, steps: BTreeSet::new() });
        touched.steps.extend(changes.steps.iter().map(|(ix, _)| *ix));
        for attempt in &changes.attempts {
            self.attempt(job, attempt);
        }
        self.notes.extend(changes.notes.iter().map(|note| (job, note.clone())));
    }

    fn attempt(&mut self, job: JobId, attempt: &Attempt) {
        self.attempts.insert(attempt.live.attempt, codec::attempt_row(job, attempt));
    }

    /// The jobs of this concurrency group that the round changes.
    pub(super) fn of_group(&self, group: &Arc<str>) -> &BTreeSet<JobId> {
        const NONE: &BTreeSet<JobId> = &BTreeSet::new();
        self.in_groups.get(group).unwrap_or(NONE)
    }

    fn touch_group(&mut self, job: &Job) {
        let Some(group) = &job.group else { return };
        let in_group = self.in_groups.entry(group.clone()).or_default();
        // One that was made and turned away in this round stands in no row, and took no slot: nobody has to look at it.
        let is_new = self.touched.get(&job.id).is_some_and(|touched| touched.base.is_none());
        if is_new && job.is_final() && job.header.admitted_at.is_none() {
            in_group.remove(&job.id);
        } else {
            in_group.insert(job.id);
        }
    }

    pub(super) fn writes_attempt(&self, attempt: AttemptId) -> bool {
        self.attempts.contains_key(&attempt)
    }

    /// Attempts of this job that the round gives up without proof, and when.
    pub(super) fn given_up_of(&self, job: JobId) -> impl Iterator<Item = (AttemptId, StepIx, Time)> {
        let of_job = self.attempts.values().filter(move |row| row.job == job && !row.confirmed);
        of_job.filter_map(|row| Some((row.id, row.ix, row.ended_at?)))
    }

    /// Attempts that were given up before, and of which the round puts on record that they are over.
    pub(super) fn over_for_certain(&self) -> impl Iterator<Item = AttemptId> {
        let confirmed = self.confirmed.iter().map(|(attempt, _)| *attempt);
        confirmed.chain(self.late_outcomes.iter().map(|late| late.attempt))
    }

    /// Something that changes no row of the job, and belongs into its history.
    pub(super) fn tell(&mut self, job: JobId, note: Note) {
        self.notes.push((job, note));
    }

    /// One of these two jobs is decided because of the other.
    pub(super) fn tie(&mut self, one: JobId, other: JobId) {
        if planted::is(Bug::TiesIgnored) {
            return;
        }
        self.ties.insert((one, other));
    }

    pub(super) fn has_definition(&self, hash: &[u8; 32]) -> bool {
        self.definitions.contains_key(hash)
    }

    pub(super) fn definition(&self, hash: &[u8; 32]) -> Option<DefinitionRow> {
        self.definitions.get(hash).cloned()
    }

    pub(super) fn add_definition(&mut self, row: &DefinitionRow) {
        self.definitions.entry(row.hash).or_insert_with(|| row.clone());
    }

    /// Keeps a setting beyond this server's life.
    pub(super) fn meta(&mut self, key: &'static str, value: &impl Serialize) {
        let text = serde_json::to_string(value).expect("a setting is plain data and always has a JSON form");
        self.meta.push((key, text));
    }

    /// Attempts that are over as of this round, and since when.
    pub(super) fn over(&self) -> impl Iterator<Item = (AttemptId, Time)> {
        self.attempts.values().filter_map(|row| Some((row.id, row.ended_at?)))
    }

    /// Whether what is in memory of this job may be older than its rows: nothing of this round, and not looked at in it.
    pub(super) fn first_doubt(&mut self, job: JobId) -> bool {
        !self.touches(job) && self.doubted.insert(job)
    }

    /// Whether nobody asked for leave to start before in this round.
    pub(super) fn first_start(&mut self) -> bool {
        !std::mem::replace(&mut self.starts, true)
    }

    /// Whether this round changes the job: memory is ahead of its rows.
    pub(super) fn touches(&self, job: JobId) -> bool {
        self.touched.contains_key(&job)
    }

    /// Something that is due is left as it is until then.
    pub(super) fn look_again(&mut self, at: Time) {
        self.look_again_at = Some(self.look_again_at.map_or(at, |other| other.min(at)));
    }

    /// The same for a trigger, which nobody else puts off.
    pub(super) fn leave_trigger(&mut self) {
        self.leaves_due = true;
    }

    pub(super) fn look_again_at(&self) -> Option<Time> {
        self.look_again_at
    }

    /// The jobs that this round changes.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.touched.keys().copied()
    }

    /// The rows of the last state of everything that was touched: however many events, one write each.
    pub(super) fn batch(&mut self, cache: &Cache) -> Batch {
        let mut batch = Batch { now: self.now, ..Batch::default() };
        for (id, touched) in &self.touched {
            let Some(Cached { job, meta }) = cache.get(*id) else { continue };
            batch.jobs.push(JobWrite { row: codec::job_row(job, meta), expected: touched.base });
            for &ix in &touched.steps {
                let name = &job.name(ix);
                batch.steps.push(codec::step_row(*id, ix, name, job.step(ix)));
            }
        }
        batch.attempts = emptied(&mut self.attempts, |(_, row)| row);
        batch.events = self.notes.iter().map(|(job, note)| codec::event_row(*job, note)).collect();
        batch.definitions = emptied(&mut self.definitions, |(_, row)| row);
        batch.idempotency = std::mem::take(&mut self.idempotency);
        batch.late_outcomes = std::mem::take(&mut self.late_outcomes);
        batch.quarantine = std::mem::take(&mut self.quarantine);
        batch.logs = std::mem::take(&mut self.logs);
        batch.marks = std::mem::take(&mut self.marks);
        batch.log_deadlines = std::mem::take(&mut self.log_deadlines);
        batch.log_closes = std::mem::take(&mut self.log_closes);
        batch.outbox = std::mem::take(&mut self.outbox);
        batch.outbox_moves = std::mem::take(&mut self.outbox_moves);
        batch.beats = std::mem::take(&mut self.beats);
        batch.seen = emptied(&mut self.seen, |seen| seen);
        batch.lineage = std::mem::take(&mut self.lineage);
        batch.ties = std::mem::take(&mut self.ties).into_iter().collect();
        batch.confirmed = std::mem::take(&mut self.confirmed);
        batch.begun = std::mem::take(&mut self.begun);
        batch.fleet = std::mem::take(&mut self.fleet);
        batch.triggers = self.trigger_writes();
        batch.admissions = self.admissions();
        batch.meta = std::mem::take(&mut self.meta);
        batch.hellos = std::mem::take(&mut self.hellos);
        batch.breaker = self.breaker.take();
        batch.breaker_ended = self.breaker_ended.take();
        batch.used_epochs = emptied(&mut self.used_epochs, |used| used);
        batch.left = emptied(&mut self.left, |(id, (epoch, heard))| (id, epoch, heard));
        batch.unwilling = emptied(&mut self.unwilling, |(id, (epoch, on))| (id, epoch, on));
        batch.hearing = self.listened.map(|listened| Mark { row: listened.hearing.row, expected: listened.before });
        batch.server = self.server.take();
        batch.claims = std::mem::take(&mut self.claims);
        batch.under = self.under.iter().copied().collect();
        batch
    }
}

impl<S: Store> Core<S> {
    /// Lets the engine decide, and takes over what it says. The only caller of `engine::apply`.
    pub(super) fn apply(&mut self, id: JobId, event: &Event, round: &mut Round) -> Result<(), EventError> {
        let random = self.random.bits();
        let cached = match self.cache.load(id, &mut self.store, &self.definitions) {
            Ok(cached) => cached,
            Err(LoadError::NotFound) => return Err(EventError::NoSuchJob),
            Err(LoadError::Store(error)) => return Err(error.into()),
        };
        let Clocks { now, heard, verdicts_from } = round.clocks;
        let rules = &self.config.rules;
        let ctx =
            engine::Ctx { now, heard, verdicts_from, random, rules, workers: &self.roster, evaluator: &self.evaluator };
        let mut changes = match engine::apply(&cached.job, event, &ctx) {
            Ok(changes) => changes,
            // A no is believed only if it is what the rows say, too.
            Err(_) if self.doubt(id, round) => return self.apply(id, event, round),
            Err(rejection) => return Err(rejection.into()),
        };
        let (ends, parent) = (changes.header.state.is_final(), cached.job.parent);
        let is_held = |header: &engine::job::Header| {
            header.state == engine::JobState::Held && !planted::is(Bug::HeldChildNotTold)
        };
        let is_news_for_parent = ends || is_held(&changes.header) != is_held(&cached.job.header);
        self.keep_what_is_certain(&mut changes);
        if is_news_for_parent && let Some(parent) = parent {
            self.find_ancestors(parent.job, round)?;
        }
        let Some(cached) = self.cache.get_mut(id) else { return Err(EventError::NoSuchJob) };
        round.told.extend(told::lines(&cached.job, event, &changes, &round.buffered, now));
        let base = cached.job.header.version;
        let mut indexes = Indexes { queue: &mut self.queue, roster: &mut self.roster, noticed: &mut self.noticed };
        for (ix, step) in &changes.steps {
            indexes.change(&cached.job, *ix, step, round.now);
        }
        let before = cached.job.steps.len();
        cached.job.absorb(&changes);
        let grown = cached.job.steps.len() - before;
        round.touch(id, Some(base), &changes);
        round.touch_group(&cached.job);
        if let Some(group) = cached.job.group.as_ref().filter(|_| ends) {
            self.groups.ended(group, id, cached.job.header.state == engine::JobState::Failed);
            round.left_groups.insert(group.clone());
        }
        self.cache.grew(grown);
        for effect in &changes.effects {
            self.effect(id, effect, round);
        }
        if grown > 0 {
            self.adopt_unlisted(id, before, round);
        }
        self.order_children(id, &changes, round);
        self.order_hooks(id, &changes, round);
        if is_news_for_parent {
            self.tell_parent(id, round);
        }
        Ok(())
    }

    /// The engine's name for an attempt that a message speaks of. A worker that cannot read its own record of it has no fence
    /// for it: there the attempt's name is enough.
    pub(super) fn engine_ticket(&mut self, ticket: protocol::attempt::Ticket, place: Place) -> engine::event::Ticket {
        let attempt = AttemptId(ticket.attempt);
        let mut fence = engine::Fence(ticket.fence);
        if ticket.fence == NO_FENCE
            && let Ok(cached) = self.cache.load(place.job, &mut self.store, &self.definitions)
            && let Some((current, its)) = cached.job.state(place.step).ticket()
            && current == attempt
        {
            fence = its;
        }
        engine::event::Ticket { step: place.step, attempt, fence }
    }

    pub(super) fn submit(&mut self, submit: &Submit, round: &mut Round) -> Result<Submitted, SubmitError> {
        let key = submit.idempotency.as_ref().filter(|_| !planted::is(Bug::SubmittedTwice));
        if let Some(key) = key {
            let in_round = round.idempotency.iter().find(|row| row.token == key.token && row.key == key.key).cloned();
            let known = match in_round {
                Some(row) => Some(row),
                None => match self.ahead.key(key) {
                    Some(known) => known,
                    None => self.store.reader().idempotency(key.token, &key.key)?,
                },
            };
            if let Some(row) = known {
                let same = row.request_hash == key.request_hash;
                return if same { Ok(Submitted::plain(row.job, true)) } else { Err(SubmitError::KeyReused) };
            }
        }
        // A trigger that rests says so, however things stand with what it would start.
        let called = match &submit.trigger {
            Some(trigger) => self.trigger_now(trigger, round)?,
            None => None,
        };
        if called.as_ref().is_some_and(|(_, row)| row.paused_at.is_some()) && !planted::is(Bug::CalledAtRest) {
            return Err(SubmitError::Paused);
        }
        let id = JobId(self.random.uuid(round.now));
        let group = match self.group_for(id, &submit.definition, &submit.input, round) {
            Err(full @ SubmitError::GroupFull(_)) => {
                if let Some((base, row)) = called {
                    round.called_in_vain(base, row, &full.to_string());
                }
                return Err(full);
            }
            group => group?,
        };
        if let Some((base, row)) = called {
            round.called(base, row, id);
        }
        self.new_job(id, submit, group, None, round);
        if let Some(key) = key {
            round.idempotency.push(IdempotencyRow {
                key: key.key.clone(),
                token: key.token,
                request_hash: key.request_hash,
                job: id,
                created_at: round.now,
            });
        }
        Ok(Submitted::plain(id, false))
    }

    /// The concurrency group of a job that is to be made, if that takes it.
    pub(super) fn group_for(
        &mut self,
        id: JobId,
        definition: &Definition,
        input: &Value,
        round: &Round,
    ) -> Result<Option<Arc<str>>, SubmitError> {
        let group = engine::group_of(definition, input, id, &self.evaluator).map_err(SubmitError::Group)?;
        if let Some(group) = &group {
            self.has_room(group, definition, round)?.map_err(SubmitError::GroupFull)?;
        }
        Ok(group)
    }

    /// `doubt`: it may have been there before, in a time that is lost; the database was restored at this one.
    pub(super) fn new_job(
        &mut self,
        id: JobId,
        submit: &Submit,
        group: Option<Arc<str>>,
        doubt: Option<Time>,
        round: &mut Round,
    ) {
        let input: std::sync::Arc<Value> = std::sync::Arc::new(submit.input.clone());
        let meta = JobMeta { definition: submit.row.hash, input: input.to_string().into() };
        self.definitions.remember(submit.row.hash, submit.definition.clone());
        let (ctx, _) = self.ctx(round.clocks);
        let by = submit.submitted_by.as_str().into();
        let definition = submit.definition.clone();
        let (job, changes) = match doubt {
            None => engine::submit(id, definition, input, group, by, &ctx),
            Some(at) => engine::submit_in_doubt(id, definition, input, group, by, at, &ctx),
        };
        for row in submit.children.iter().chain([&submit.row]) {
            if !submit.children.is_empty() {
                self.definitions.remember_row(row);
            }
            round.add_definition(row);
        }
        self.enter(Cached { job, meta }, &changes, round);
    }

    /// A job that goes on where `old` ended, with the same definition, and the same input if there is no other; with another
    /// one comes its concurrency group.
    #[expect(clippy::too_many_arguments, reason = "two jobs, how one follows from the other, and by whom")]
    pub(super) fn new_from(
        &mut self,
        id: JobId,
        old: JobId,
        how: &Continuation,
        input: Option<(&Value, Option<Arc<str>>)>,
        confirm_dead: bool,
        last: &dyn Fn(StepIx) -> Option<LastAttempt>,
        by: &str,
        round: &mut Round,
    ) -> Result<(), EventError> {
        let random = self.random.bits();
        let Some(cached) = self.cache.get(old) else { return Err(EventError::NoSuchJob) };
        let Clocks { now, heard, verdicts_from } = round.clocks;
        let (rules, workers, evaluator) = (&self.config.rules, &self.roster, &self.evaluator);
        let ctx = engine::Ctx { now, heard, verdicts_from, random, rules, workers, evaluator };
        let mut meta = cached.meta.clone();
        let (job, changes) = match input {
            None => engine::carry_on(id, &cached.job, how, confirm_dead, last, by.into(), &ctx)?,
            Some((input, group)) => {
                meta.input = input.to_string().into();
                let mut old = cached.job.clone();
                (old.input, old.group) = (std::sync::Arc::new(input.clone()), group);
                engine::carry_on(id, &old, how, confirm_dead, last, by.into(), &ctx)?
            }
        };
        self.bring_definition(meta.definition, old, round);
        self.enter(Cached { job, meta }, &changes, round);
        Ok(())
    }

    /// Takes over a job that was just made.
    pub(super) fn enter(&mut self, made: Cached, changes: &Changes, round: &mut Round) {
        let id = made.job.id;
        round.touch(id, None, changes);
        round.touch_group(&made.job);
        let mut indexes = Indexes { queue: &mut self.queue, roster: &mut self.roster, noticed: &mut self.noticed };
        for (ix, step) in &changes.steps {
            indexes.enter(&made.job, *ix, step, round.now);
        }
        self.cache.insert(made);
        self.order_children(id, changes, round);
        self.order_hooks(id, changes, round);
        let is_held = changes.header.state == engine::JobState::Held && !planted::is(Bug::HeldChildNotTold);
        if changes.header.state.is_final() || is_held {
            self.tell_parent(id, round);
        }
        self.join_group(id, round);
    }

    /// Hands queued steps to workers with free slots, in the same transaction that freed them.
    pub(super) fn dispatch(&mut self, round: &mut Round) {
        for _ in 0..OFFERS_PER_ROUND {
            let Some(assignment) = dispatch::plan(&self.queue, &self.roster) else { return };
            let place = assignment.place;
            if let Some(until) = self.aside.get(&place.job).copied() {
                // Nobody else may have a word for it: it is in the queue again when it is read then.
                self.queue.remove(place);
                self.noticed.look_at(place.job, until);
                continue;
            }
            if self.withholds(place) {
                self.queue.remove(place);
                continue;
            }
            if let Err(error) = self.offer(assignment, round) {
                // The queue said what the row does not, or the database is away: the row is right, when it can be read.
                tracing::debug!(job = %place.job, step = place.step.0, %error, "an offer was not possible");
                self.queue.remove(place);
                self.noticed.look_at(place.job, round.now + LOOK_EVERY);
            }
        }
    }

    fn offer(&mut self, assignment: dispatch::Assignment, round: &mut Round) -> Result<(), EventError> {
        let fence = self.next_fence(round.now)?;
        let attempt = AttemptId(self.random.uuid(round.now));
        let Some(worker) = self.roster.get(assignment.worker) else {
            return Err(EventError::Internal("the worker is not in the roster".to_owned()));
        };
        let epoch = worker.epoch;
        let ticket = engine::event::Ticket { step: assignment.place.step, attempt, fence };
        self.apply(assignment.place.job, &Event::Offer { ticket, worker: assignment.worker, epoch }, round)
    }

    /// Replies to everyone and sends what was decided. Returns the commands that must be decided anew.
    pub(super) fn answer(
        &mut self,
        commands: Vec<Command>,
        mut round: Box<Round>,
        committed: &Committed,
    ) -> Vec<Command> {
        let mut again = Vec::new();
        for command in commands {
            match command {
                Command::Submit(submit, reply) => {
                    let answer = match &round.poisoned {
                        Some(message) => Err(SubmitError::Internal(message.clone())),
                        None => round.submitted.pop_front().unwrap_or(Err(SubmitError::Internal(String::new()))),
                    };
                    match answer {
                        Ok(made) if committed.conflicts.contains(&made.job) => {
                            again.push(Command::Submit(submit, reply));
                        }
                        Err(SubmitError::GroupFull(full)) if round.outdates(&full, committed) => {
                            again.push(Command::Submit(submit, reply));
                        }
                        answer => {
                            let answer = answer.map(|made| self.with_job(&made, round.clocks, committed));
                            drop(reply.send(answer));
                        }
                    }
                }
                Command::Event { job, event, reply } => {
                    let answer = match &round.poisoned {
                        Some(message) => Err(EventError::Internal(message.clone())),
                        None => round.answered.pop_front().map_or(Err(EventError::NoSuchJob), |(_, answer)| answer),
                    };
                    if committed.conflicts.contains(&job) {
                        again.push(Command::Event { job, event, reply });
                    } else {
                        drop(reply.send(answer));
                    }
                }
                Command::Again(order, reply) => {
                    let answer = match &round.poisoned {
                        Some(message) => Err(EventError::Internal(message.clone()).into()),
                        None => round.settled.pop_front().unwrap_or(Err(EventError::NoSuchJob.into())),
                    };
                    match answer {
                        Ok(settled) if committed.conflicts.contains(&settled.job) => {
                            again.push(Command::Again(order, reply));
                        }
                        Err(AgainError::GroupFull(full)) if round.outdates(&full, committed) => {
                            again.push(Command::Again(order, reply));
                        }
                        answer => drop(reply.send(answer)),
                    }
                }
                Command::Recover(_, reply) => {
                    let answer = match &round.poisoned {
                        Some(message) => Err(EventError::Internal(message.clone())),
                        None => round.recovered.pop_front().unwrap_or_else(|| Ok(Vec::new())),
                    };
                    // What another server has moved meanwhile was not given up by this order.
                    let given_up = |mut found: Vec<StaleAttempt>| {
                        found.retain(|stale| !committed.conflicts.contains(&stale.job));
                        found
                    };
                    drop(reply.send(answer.map(given_up)));
                }
                Command::Fleet(_, reply) => {
                    let answer = match &round.poisoned {
                        Some(message) => Err(FleetError::Internal(message.clone())),
                        None => round.ordered.pop_front().unwrap_or(Err(FleetError::NoSuchWorker)),
                    };
                    drop(reply.send(answer));
                }
                Command::Triggers(_, reply) => drop(reply.send(())),
                Command::Trigger(order, reply) => {
                    let answer = match &round.poisoned {
                        Some(message) => Err(TriggerError::Internal(message.clone())),
                        None => round.triggered.pop_front().unwrap_or(Err(TriggerError::NoSuchTrigger)),
                    };
                    if committed.triggers_moved.contains(order.id()) {
                        again.push(Command::Trigger(order, reply));
                    } else {
                        drop(reply.send(answer));
                    }
                }
                Command::Link(LinkEvent::Log(frame)) if round.poisoned.is_some() => {
                    self.log_refused(&frame, &mut round);
                }
                Command::Link(LinkEvent::Log(frame)) => self.log_taken(&frame),
                Command::Link(event) => again.extend(self.link_again(event, &mut round, committed).map(Command::Link)),
                Command::Swept(swept) if committed.conflicts.contains(&swept.place.job) => self.swept_in_vain(swept),
                Command::WithStore(_)
                | Command::Changed
                | Command::Prune(..)
                | Command::Inspect(_)
                // Where it could not be written, it is tried again when its time is over.
                | Command::Delivered(_)
                | Command::Check(_)
                | Command::Fire(_)
                | Command::Swept(_) => {}
            }
        }
        for (link, welcome) in std::mem::take(&mut round.welcomes) {
            self.send(link, ServerMessage::Welcome(welcome));
        }
        for (job, link, message) in std::mem::take(&mut round.outgoing) {
            if job.is_none_or(|job| !committed.conflicts.contains(&job)) {
                self.send(link, message);
            }
        }
        for (job, notice) in round.notices.iter().filter(|(job, _)| !committed.conflicts.contains(job)) {
            notices::say(*job, notice);
        }
        round.told.iter().filter(|told| !committed.conflicts.contains(&told.job)).for_each(Told::say);
        for link in std::mem::take(&mut round.hang_up) {
            if let Some(known) = self.links.get(&link) {
                known.sender.close();
            }
        }
        again
    }

    /// What a link brought and was decided on rows that had moved: the same once more, as far as it was about them.
    fn link_again(&mut self, event: LinkEvent, round: &mut Round, committed: &Committed) -> Option<LinkEvent> {
        if committed.conflicts.is_empty() {
            return None;
        }
        match event {
            LinkEvent::Hello { link, worker, hello, sender } => {
                // Its welcome is in there.
                round.welcomes.retain(|(welcomed, _)| *welcomed != link);
                self.links.contains_key(&link).then_some(LinkEvent::Hello { link, worker, hello, sender })
            }
            LinkEvent::Messages { link, mut messages } => {
                messages.retain(|message| {
                    let Some(ticket) = super::links::ticket_of(message) else { return false };
                    self.cache.take_missed();
                    match self.place(AttemptId(ticket.attempt)) {
                        Some(place) => committed.conflicts.contains(&place.job),
                        // If it cannot be looked up it may be about them. Decided twice it is as if it was said twice.
                        None => self.cache.take_missed().is_some(),
                    }
                });
                (!messages.is_empty()).then_some(LinkEvent::Messages { link, messages })
            }
            // What it means is found in the rows when they are read again.
            LinkEvent::Closed { .. } => None,
            // Logs belong to attempts, and conflict with nobody.
            LinkEvent::Log(_) | LinkEvent::LogDropped { .. } => None,
        }
    }

    /// Where an attempt belongs: from what workers hold, else from the store.
    pub(super) fn place(&mut self, attempt: AttemptId) -> Option<Place> {
        if let Some(place) = self.roster.place(attempt) {
            return Some(place);
        }
        if let Some(found) = self.ahead.place(attempt) {
            return found.map(|(job, step)| Place { job, step });
        }
        match self.store.place_of(attempt) {
            Ok(found) => found.map(|(job, step)| Place { job, step }),
            Err(error) => {
                tracing::warn!(%attempt, %error, "an attempt could not be looked up");
                self.cache.missed(&error);
                None
            }
        }
    }

    pub(super) fn effect_target(&self, worker: WorkerId) -> Option<LinkId> {
        self.roster.get(worker).and_then(|w| w.link)
    }
}

/// All that a map held. In most rounds most are empty.
fn emptied<K, V, T>(map: &mut BTreeMap<K, V>, row: impl FnMut((K, V)) -> T) -> Vec<T> {
    if map.is_empty() { Vec::new() } else { std::mem::take(map).into_iter().map(row).collect() }
}

/// Names an attempt on the wire.
pub(super) fn wire_ticket(attempt: AttemptId, fence: engine::Fence) -> protocol::attempt::Ticket {
    protocol::attempt::Ticket { attempt: attempt.0, fence: fence.0 }
}
