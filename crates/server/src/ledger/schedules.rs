//! Triggers: rows that are looked at when their time has come, and make a job then.
//!
//! Where a trigger stands is a row. It and the job that it makes are written together, by whoever finds the row as it was;
//! and the job's id follows from the trigger and the time. So there is one job for a time, whoever makes it, and however
//! often: also where the commit is lost and all of it is decided again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::{JobId, Time};
use planted::Bug;
use store::rows::TriggerRow;
use store::{Batch, Committed, Lease, Store, StoreError, TriggerWrite};

use crate::schedule::plan::{self, LATE_MAX};
use crate::schedule::{Book, Entry, Missed, Next, Ready, Schedule, Work};

use super::cache::LoadError;
use super::command::{Command, Submit, SubmitError};
use super::core::Core;
use super::round::Round;

/// Triggers that are seen to in one round; the rest follow in the next.
const TRIGGERS_PER_ROUND: usize = 1_000;

/// Where several servers share the rows, one that is due and in nobody's tasks for so long belongs to no task: a server
/// that knew it would have fired it. One server alone waits for as long as a time is not missed.
const UNKNOWN_AFTER: Duration = Duration::from_secs(600);

/// How long one whose job cannot be written is left alone.
const ASIDE_FOR: Duration = Duration::from_secs(60);

/// What this server knows of triggers; where they stand is in the rows alone.
#[derive(Default)]
pub(super) struct Schedules {
    /// None before the tasks were read: then nothing is fired, and nothing is taken for gone.
    book: Option<Arc<Book>>,
    /// Those that went with their tasks, or with a change of them.
    gone: BTreeSet<String>,
    /// The rows may not be what the book says.
    must_settle: bool,
    /// Those that are to come while their task is not there, or has errors: that is told once.
    orphans: BTreeSet<String>,
    aside: BTreeMap<String, Time>,
}

impl Schedules {
    /// How many are kept apart from the book.
    pub(super) fn kept(&self) -> usize {
        self.gone.len() + self.orphans.len() + self.aside.len()
    }

    pub(super) fn book(&self) -> Option<Arc<Book>> {
        self.book.clone()
    }
}

/// An operator's word on a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriggerOrder {
    Pause { id: String, by: String },
    Resume { id: String },
}

impl TriggerOrder {
    pub(super) fn id(&self) -> &str {
        match self {
            TriggerOrder::Pause { id, .. } | TriggerOrder::Resume { id } => id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    #[error("there is no such trigger")]
    NoSuchTrigger,
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<StoreError> for TriggerError {
    fn from(error: StoreError) -> TriggerError {
        TriggerError::Internal(error.to_string())
    }
}

/// A trigger's row as this round leaves it.
#[derive(Debug)]
pub(super) struct Moved {
    base: Option<u64>,
    row: TriggerRow,
    jobs: Vec<JobId>,
}

impl Round {
    pub(super) fn trigger_writes(&mut self) -> Vec<TriggerWrite> {
        let write = |moved: Moved| TriggerWrite { row: moved.row, expected: moved.base, jobs: moved.jobs };
        std::mem::take(&mut self.triggers).into_values().map(write).collect()
    }

    /// Writes the row, with the job that comes of it. However often it changes in one round, it is one write. `base` is the
    /// version that it had before the round.
    fn move_trigger(&mut self, base: Option<u64>, row: TriggerRow, made: impl IntoIterator<Item = JobId>) {
        let jobs = self.triggers.remove(&row.id).map(|before| before.jobs).unwrap_or_default();
        let jobs = jobs.into_iter().chain(made).collect();
        let row = TriggerRow { version: base.map_or(1, |version| version + 1), ..row };
        self.triggers.insert(row.id.clone(), Moved { base, row, jobs });
    }

    /// A call made a job: the trigger's row says so.
    pub(super) fn called(&mut self, base: Option<u64>, row: TriggerRow, job: JobId) {
        let row = TriggerRow { last_at: Some(self.now), last_job: Some(job), last_error: None, ..row };
        self.move_trigger(base, row, Some(job));
    }

    /// A call made no job, since its group is full: whoever looks at the trigger sees that, until a call makes one.
    pub(super) fn called_in_vain(&mut self, base: Option<u64>, row: TriggerRow, problem: &str) {
        if row.last_error.as_deref() != Some(problem) {
            self.move_trigger(base, TriggerRow { last_error: Some(problem.to_owned()), ..row }, None);
        }
    }
}

impl<S: Store> Core<S> {
    /// The tasks have changed: what is new, changed or gone is seen to in this round.
    pub(super) fn take_book(&mut self, book: &Arc<Book>) {
        if let Some(old) = &self.schedules.book {
            self.schedules.gone.extend(old.iter().map(|(id, _)| id.to_owned()));
        }
        self.schedules.gone.retain(|id| book.get(id).is_none());
        self.schedules.book = Some(book.clone());
        self.schedules.must_settle = true;
        self.leases.hurry(Lease::Cron);
        // What was due and not known is known now.
        self.check_soon(self.tick.now);
    }

    /// What is remembered of rows may not be so any more.
    pub(super) fn doubt_schedules(&mut self) {
        self.schedules.must_settle = true;
    }

    /// Brings the rows in line with the tasks. Nothing is fired for times before a trigger was there, or said what it says.
    pub(super) fn settle_schedules(&mut self, round: &mut Round) {
        if !self.schedules.must_settle {
            return;
        }
        let Some(book) = self.schedules.book.clone() else { return };
        let rows = match self.store.reader().triggers() {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "the triggers could not be read; they are tried again");
                return self.check_soon(round.now + super::core::LOOK_AGAIN_SOON);
            }
        };
        let mut rows: BTreeMap<String, TriggerRow> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
        self.schedules.must_settle = false;
        for (id, entry) in book.iter() {
            // What somebody ordered in this round is settled in the next.
            if round.triggers.contains_key(id) {
                self.schedules.must_settle = true;
                self.check_soon(round.now);
                continue;
            }
            match rows.remove(id) {
                None => round.move_trigger(None, begun(id, entry, round.now), None),
                Some(row) if row.definition == entry.definition && waits_for_task(&row, entry) => {
                    let (base, before) = (row.version, row.missed);
                    let row = TriggerRow { last_error: None, ..resumed(row, entry, round.now) };
                    self.metrics.triggers_missed.inc_by(row.missed.saturating_sub(before));
                    round.move_trigger(Some(base), row, None);
                }
                Some(row) if row.definition != entry.definition || is_dormant(&row, entry) => {
                    let TriggerRow {
                        paused_at, paused_by, last_at, last_job, missed, notice, notice_at, version, ..
                    } = row;
                    let new = begun(id, entry, round.now);
                    let next_at = new.next_at.filter(|_| paused_at.is_none());
                    let kept = TriggerRow { paused_at, paused_by, next_at, last_at, last_job, ..new };
                    let row = TriggerRow { missed, notice, notice_at, ..kept };
                    round.move_trigger(Some(version), row, None);
                }
                Some(_) => {}
            }
        }
        for id in std::mem::take(&mut self.schedules.gone) {
            let taken_out = |row: &TriggerRow| book.missing(&row.task).is_none() && row.planned_at.is_some();
            if let Some(row) = rows.get(&id).filter(|row| taken_out(row)).cloned() {
                // Whoever puts it back begins anew.
                let row = TriggerRow { planned_at: None, next_at: None, ..row };
                round.move_trigger(Some(row.version), row, None);
            }
        }
        self.tell_orphans(&book, rows.values());
    }

    /// Schedules that would come, and have no task that could be run. What is missed is noticed when its time is over.
    fn tell_orphans<'a>(&mut self, book: &Book, rows: impl Iterator<Item = &'a TriggerRow>) {
        let mut orphans = BTreeSet::new();
        for row in rows.filter(|row| row.next_at.is_some()) {
            let Some(problem) = book.missing(&row.task) else { continue };
            if !self.schedules.orphans.contains(&row.id) {
                tracing::warn!(trigger = row.id, task = row.task, problem, "a schedule has no task that can be run");
            }
            orphans.insert(row.id.clone());
        }
        self.schedules.orphans = orphans;
    }

    /// Due triggers are commands like any other, so that one which cannot be written is found like any other.
    pub(super) fn fire_due(&mut self, commands: &mut Vec<Command>, round: &mut Round) -> Result<(), StoreError> {
        let now = round.now;
        self.schedules.aside.retain(|_, until| *until > now);
        for row in self.store.due_triggers(now, TRIGGERS_PER_ROUND)? {
            // What this round has moved already is looked at in the next.
            if round.triggers.contains_key(&row.id) {
                continue;
            }
            if self.schedules.aside.contains_key(&row.id) || !self.sees_to_trigger(&row, round) {
                round.leave_trigger();
                continue;
            }
            let id = row.id.clone();
            round.under.extend(self.tenure(Lease::Cron));
            self.fire(row, round);
            commands.push(Command::Fire(id));
        }
        Ok(())
    }

    /// Of several servers one fires for all. What that one leaves, for it may not know the task, is anyone's who does, when
    /// the time is over in which another one would have taken its place. Which of them is first is seen by the row's version.
    fn sees_to_trigger(&self, row: &TriggerRow, round: &Round) -> bool {
        if planted::is(Bug::TriggerFiresTwice) {
            return true;
        }
        let (Some(_), Some(at), Some(book)) = (row.planned_at, row.next_at, &self.schedules.book) else {
            return self.schedules.book.is_some();
        };
        // After commits were lost, times come again whose jobs workers may have: these are made before they are asked for.
        let at_once = self.tenure(Lease::Cron).is_some() || self.amnesia.is_some();
        let left_to_others = if at_once { Duration::ZERO } else { self.hearing_rules.dead_after };
        let overdue = round.now.since(at);
        match book.get(&row.id) {
            Some(_) => overdue >= left_to_others,
            None if self.siblings.is_shared() => overdue >= UNKNOWN_AFTER + left_to_others,
            None => overdue > LATE_MAX + left_to_others,
        }
    }

    /// The same in a piece of a batch that was split.
    pub(super) fn fire_again(&mut self, id: &str, round: &mut Round) {
        match self.store.reader().trigger(id) {
            Ok(Some(row)) if row.next_at.is_some_and(|at| at <= round.now) && self.sees_to_trigger(&row, round) => {
                round.under.extend(self.tenure(Lease::Cron));
                self.fire(row, round);
            }
            // Another server was faster, or does it now, or its time has moved.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(trigger = id, %error, "a trigger that is due could not be read; it is tried again");
            }
        }
    }

    fn fire(&mut self, row: TriggerRow, round: &mut Round) {
        let Some(book) = self.schedules.book.clone() else { return };
        let base = Some(row.version);
        let (Some(planned), Some(Entry { work: Work::Cron { ready, .. }, .. })) = (row.planned_at, book.get(&row.id))
        else {
            return self.fire_without_task(row, &book, round);
        };
        // By what the row says: it may be newer than this server's tasks.
        let times = Schedule::from_json(&row.definition).and_then(|schedule| schedule.times(&row.id));
        let times = match times {
            Ok(times) => times,
            Err(error) => {
                tracing::error!(trigger = row.id, error, "a trigger's schedule cannot be read; it rests");
                let tied = self.miss(&row, planned, &error, round);
                let (notice, notice_at) = (Some(error.clone()), Some(round.now));
                let row = TriggerRow { next_at: None, last_error: Some(error), notice, notice_at, ..row };
                return round.move_trigger(base, row, [tied]);
            }
        };
        let outcome = times.come(planned, round.now);
        self.metrics.triggers_missed.inc_by(outcome.missed);
        if outcome.missed > 0 {
            tracing::warn!(
                trigger = row.id,
                missed = outcome.missed,
                "times of a trigger passed without a run of their own"
            );
        }
        let id = if planted::is(Bug::TriggerFiresTwice) {
            JobId(self.random.uuid(round.now))
        } else {
            plan::job_id(&row.id, planned)
        };
        let doubt = self.restore.casts_doubt_on(planned);
        let made = if outcome.fires { self.make(id, &row.id, ready, doubt, round) } else { Ok(None) };
        let (job, last_error) = match made {
            Ok(job) => (job, None),
            Err(MakeError::Away(error)) => {
                tracing::warn!(trigger = row.id, %error, "a trigger is tried again when the rows can be read");
                return round.leave_trigger();
            }
            Err(MakeError::NotReady(error)) => {
                tracing::error!(trigger = row.id, error, "a trigger could not make its job");
                (None, Some(error))
            }
        };
        // One run makes up for what was missed, where the policy says so.
        let skipped = if outcome.fires && times.missed == Missed::Once { 0 } else { outcome.missed };
        let notice = missed_words(skipped, planned, row.last_error.as_deref(), last_error.as_deref());
        let mut row = moved_on(row, outcome.next);
        row.missed = row.missed.saturating_add(outcome.missed);
        let mut tied = None;
        if let Some(text) = notice {
            tied = Some(self.miss(&row, planned, &text, round));
            (row.notice, row.notice_at) = (Some(text), Some(round.now));
        }
        row.last_error = last_error;
        if outcome.fires && row.last_error.is_none() {
            (row.last_at, row.last_job) = (Some(round.now), Some(id));
        }
        let together = job.filter(|_| !planted::is(Bug::TriggerFiresTwice));
        round.move_trigger(base, row, together.into_iter().chain(tied));
    }

    /// Its time is over, and its task is not there, or has errors: it is told once, and rests until there is one. What has
    /// passed by then was missed, and `planned_at` says since when.
    fn fire_without_task(&mut self, row: TriggerRow, book: &Book, round: &mut Round) {
        let base = Some(row.version);
        let (Some(planned), Some(problem)) = (row.planned_at, book.missing(&row.task)) else {
            tracing::info!(trigger = row.id, "a trigger is in its task no more");
            return round.move_trigger(base, TriggerRow { planned_at: None, next_at: None, ..row }, None);
        };
        let times = Schedule::from_json(&row.definition).and_then(|schedule| schedule.times(&row.id));
        let passed = times.map_or(1, |times| {
            let outcome = times.come(planned, round.now);
            outcome.missed + u64::from(outcome.fires)
        });
        let text = missed_words(passed, planned, row.last_error.as_deref(), Some(&problem));
        let mut row = TriggerRow { next_at: None, ..row };
        let mut tied = None;
        if let Some(text) = text {
            tied = Some(self.miss(&row, planned, &text, round));
            (row.notice, row.notice_at) = (Some(text), Some(round.now));
        }
        row.last_error = Some(problem);
        round.move_trigger(base, row, tied);
    }

    /// None: the job was made before, and only the row does not say so.
    fn make(
        &mut self,
        id: JobId,
        trigger: &str,
        ready: &Result<Ready, String>,
        doubt: Option<Time>,
        round: &mut Round,
    ) -> Result<Option<JobId>, MakeError> {
        let Ready { task, input } = ready.as_ref().map_err(|error| MakeError::NotReady(error.clone()))?;
        // By the rows: they may have lost what is remembered.
        if !round.touches(id) {
            self.cache.drop_job(id);
        }
        match self.cache.load(id, &mut self.store, &self.definitions) {
            Ok(_) => return Ok(None),
            Err(LoadError::NotFound) => {}
            Err(LoadError::Store(error @ StoreError::Unavailable { .. })) => return Err(MakeError::Away(error)),
            Err(LoadError::Store(error)) => return Err(MakeError::NotReady(error.to_string())),
        }
        // A time that comes again after commits were lost may have a job on a worker: that is known, whatever is missing now.
        if self.amnesia.is_none()
            && let Some(lacks) = self.lacking_secrets(&task.task.definition)
        {
            return Err(MakeError::NotReady(lacks));
        }
        let submit = Submit {
            definition: task.task.definition.clone(),
            row: task.row.clone(),
            children: task.children.clone(),
            input: input.clone(),
            submitted_by: submitted_by(trigger),
            idempotency: None,
            trigger: None,
        };
        let group = match self.group_for(id, &submit.definition, &submit.input, round) {
            Ok(group) => group,
            Err(SubmitError::Away(message)) => return Err(MakeError::Away(StoreError::Unavailable { message })),
            Err(error) => return Err(MakeError::NotReady(error.to_string())),
        };
        self.new_job(id, &submit, group, doubt, round);
        Ok(Some(id))
    }

    /// The job that a trigger would make cannot be written: its time is over without one.
    pub(super) fn spoil(&mut self, id: &str, message: &str, round: &mut Round) {
        self.schedules.aside.insert(id.to_owned(), round.now + ASIDE_FOR);
        let Ok(Some(row)) = self.store.reader().trigger(id) else { return };
        round.under.extend(self.tenure(Lease::Cron));
        let times = Schedule::from_json(&row.definition).and_then(|schedule| schedule.times(id));
        let next = times.ok().and_then(|times| times.after(round.now));
        let (base, mut row) = (row.version, moved_on(row, next));
        let text = missed_words(0, round.now, row.last_error.as_deref(), Some(message));
        if let Some(text) = text {
            // It is carried nowhere: whatever else is written with the row could be what cannot be.
            self.metrics.notices.inc();
            (row.notice, row.notice_at) = (Some(text), Some(round.now));
        }
        row.last_error = Some(message.to_owned());
        round.move_trigger(Some(base), row, None);
    }

    pub(super) fn order_trigger(
        &mut self,
        order: &TriggerOrder,
        round: &mut Round,
    ) -> Result<TriggerRow, TriggerError> {
        let book = self.schedules.book.clone().unwrap_or_default();
        let entry = book.get(order.id()).ok_or(TriggerError::NoSuchTrigger)?;
        let (base, row) = self.trigger_now(order.id(), round)?.ok_or(TriggerError::NoSuchTrigger)?;
        let mut tied = None;
        let row = match order {
            // The first one's time and name stay.
            TriggerOrder::Pause { .. } if row.paused_at.is_some() => return Ok(row),
            TriggerOrder::Pause { by, .. } => {
                tracing::info!(trigger = row.id, by, "a trigger is paused");
                let row = self.let_pass(row, &mut tied, round);
                TriggerRow { paused_at: Some(round.now), paused_by: Some(by.clone()), next_at: None, ..row }
            }
            TriggerOrder::Resume { .. } if row.paused_at.is_none() => return Ok(row),
            TriggerOrder::Resume { .. } => {
                tracing::info!(trigger = row.id, "a trigger goes on");
                let before = row.missed;
                let row = resumed(row, entry, round.now);
                self.metrics.triggers_missed.inc_by(row.missed.saturating_sub(before));
                row
            }
        };
        round.move_trigger(base, row.clone(), tied);
        Ok(row)
    }

    /// Somebody lets it rest that was due already: it was not the pause that these times were missed by. People are told of
    /// them, as they would have been, and are not told of those that pass while it rests. `tied`: as [`Core::miss`] has it.
    fn let_pass(&mut self, row: TriggerRow, tied: &mut Option<JobId>, round: &mut Round) -> TriggerRow {
        let times = Schedule::from_json(&row.definition).and_then(|schedule| schedule.times(&row.id));
        let due = row.next_at.is_some_and(|at| at <= round.now);
        let (Ok(times), Some(planned), true) = (times, row.planned_at, due) else { return row };
        let (missed, next) = times.pass(planned, round.now);
        let Some(text) = missed_words(missed, planned, None, None) else { return row };
        *tied = Some(self.miss(&row, planned, &text, round));
        let missed = row.missed.saturating_add(missed);
        moved_on(TriggerRow { missed, notice: Some(text), notice_at: Some(round.now), ..row }, next)
    }

    /// The row as this round has it so far, and the version that it had before.
    pub(super) fn trigger_now(&self, id: &str, round: &Round) -> Result<Option<(Option<u64>, TriggerRow)>, StoreError> {
        if let Some(moved) = round.triggers.get(id) {
            return Ok(Some((moved.base, moved.row.clone())));
        }
        Ok(self.store.reader().trigger(id)?.map(|row| (Some(row.version), row)))
    }

    /// Another server moved these: whatever is due now is found in the rows.
    pub(super) fn triggers_overtaken(&mut self, committed: &Committed, now: Time) {
        if !committed.triggers_moved.is_empty() {
            self.schedules.must_settle = true;
            self.check_soon(now);
        }
    }
}

enum MakeError {
    /// Nothing is wrong with it; the rows cannot be read.
    Away(StoreError),
    NotReady(String),
}

/// What people are told of times that made no job; nothing where all is well, or they have been told. What fails again and again
/// is one trouble, until a job is made again.
fn missed_words(skipped: u64, planned: Time, before: Option<&str>, error: Option<&str>) -> Option<String> {
    let passed = match skipped {
        0 => None,
        1 => Some(format!("1 time passed without a job: {planned}")),
        n => Some(format!("{n} times passed without a job, the first at {planned}")),
    };
    match (before, error, passed) {
        (Some(_), Some(_), _) => None,
        (None, Some(error), None) => Some(format!("its job could not be made: {error}")),
        (None, Some(error), Some(passed)) => Some(format!("{passed}; its job could not be made: {error}")),
        (_, None, passed) => passed,
    }
}

/// Who submitted a trigger's jobs.
pub fn submitted_by(trigger: &str) -> String {
    format!("trigger:{trigger}")
}

/// When the triggers of a batch want to be looked at.
pub(super) fn next_times(batch: &Batch) -> impl Iterator<Item = Time> {
    batch.triggers.iter().filter_map(|write| write.row.next_at)
}

/// A trigger that begins now.
fn begun(id: &str, entry: &Entry, now: Time) -> TriggerRow {
    let next = next_of(id, entry, now);
    TriggerRow {
        id: id.to_owned(),
        version: 1,
        task: entry.task.clone(),
        kind: entry.kind().to_owned(),
        definition: entry.definition.clone(),
        paused_at: None,
        paused_by: None,
        planned_at: next.map(|next| next.planned),
        next_at: next.map(|next| next.at),
        last_at: None,
        last_job: None,
        last_error: None,
        missed: 0,
        notice: None,
        notice_at: None,
    }
}

fn next_of(id: &str, entry: &Entry, now: Time) -> Option<Next> {
    match &entry.work {
        // What cannot be read was refused when the task was.
        Work::Cron { schedule, .. } => schedule.times(id).ok()?.after(now),
        Work::Webhook(_) => None,
    }
}

/// It rests though nobody paused it: its task was away.
fn is_dormant(row: &TriggerRow, entry: &Entry) -> bool {
    matches!(entry.work, Work::Cron { .. }) && row.next_at.is_none() && row.paused_at.is_none()
}

/// The same, and its times went by: what they come to is the policy's affair.
fn waits_for_task(row: &TriggerRow, entry: &Entry) -> bool {
    let can_be_read = matches!(&entry.work, Work::Cron { schedule, .. } if schedule.times(&row.id).is_ok());
    is_dormant(row, entry) && row.planned_at.is_some() && can_be_read
}

fn moved_on(row: TriggerRow, next: Option<Next>) -> TriggerRow {
    TriggerRow { planned_at: next.map(|next| next.planned), next_at: next.map(|next| next.at), ..row }
}

/// Times that passed while it was paused, or had no task, were missed: the policy says what becomes of them.
fn resumed(row: TriggerRow, entry: &Entry, now: Time) -> TriggerRow {
    let mut row = TriggerRow { paused_at: None, paused_by: None, ..row };
    let Work::Cron { schedule, .. } = &entry.work else { return row };
    let (Ok(times), Some(planned)) = (schedule.times(&row.id), row.planned_at) else {
        let next = next_of(&row.id, entry, now);
        return moved_on(row, next);
    };
    let (missed, next) = times.pass(planned, now);
    if missed > 0 {
        tracing::warn!(trigger = row.id, missed, "times of a trigger passed while it rested");
    }
    row.missed = row.missed.saturating_add(missed);
    moved_on(row, next)
}
