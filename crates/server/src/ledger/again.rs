//! `resolve` and `retry`: a person's word on a step, as an event while its job is open, else by a job that goes on.
//!
//! What they had seen is compared with the rows here, on the ledger's thread, so that nothing newer slips in between.

use std::collections::BTreeMap;

use engine::event::{About, AttemptNews, Note};
use engine::{AttemptId, Continuation, Event, JobId, LastAttempt, Rejection, Resolution, Resolve, StepIx};
use protocol::attempt::End;
use serde_json::Value;
use store::read::{AttemptView, Lineage};
use store::rows::LineageRow;
use store::{Store, StoreError};

use super::cache::LoadError;
use super::command::EventError;
use super::core::Core;
use super::round::Round;

/// Jobs of one lineage that are looked through for a step's last attempt.
const LINEAGE_MAX: usize = 100;

/// Something that is to be done once more, or differently.
#[derive(Debug, Clone, PartialEq)]
pub enum Again {
    Resolve(ResolveOrder),
    Retry(RetryOrder),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResolveOrder {
    pub job: JobId,
    pub step: StepIx,
    pub how: How,
    /// The attempt that the caller looked at; none if there was none.
    pub attempt: Option<AttemptId>,
    /// Its late end, as the caller saw it.
    pub late_outcome: Option<Value>,
    pub confirm_dead: bool,
    pub by: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum How {
    Succeeded { output: Value },
    Failed { reason: String },
    Rerun,
    AcceptLate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOrder {
    pub job: JobId,
    /// Keep what ended well.
    pub from_failed: bool,
    pub confirm_dead: bool,
    pub by: String,
}

/// The job that has what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    pub job: JobId,
    /// It was made for this.
    pub is_new: bool,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AgainError {
    #[error(transparent)]
    Event(#[from] EventError),
    /// The caller had not seen what is there now.
    #[error("{0}")]
    Newer(String),
    #[error("job {0} already goes on where this one ended")]
    AlreadyContinued(JobId),
    #[error("the step has no end that came late")]
    NothingLate,
    #[error("nothing in this job failed")]
    NothingFailed,
    #[error("an attempt of {} may still run", .0.join(", "))]
    MayStillRun(Vec<String>),
}

impl From<StoreError> for AgainError {
    fn from(error: StoreError) -> AgainError {
        EventError::Internal(error.to_string()).into()
    }
}

impl<S: Store> Core<S> {
    pub(super) fn again(&mut self, order: &Again, round: &mut Round) -> Result<Settled, AgainError> {
        match order {
            Again::Resolve(order) => self.resolve(order, round),
            Again::Retry(order) => self.retry(order, round),
        }
    }

    fn resolve(&mut self, order: &ResolveOrder, round: &mut Round) -> Result<Settled, AgainError> {
        let is_final = self.loaded(order.job)?.is_final();
        let here = self.attempts_of(order.job)?;
        let how = order.check(here.get(&order.step).map(Vec::as_slice).unwrap_or_default())?;
        let attempt = order.attempt.unwrap_or(AttemptId(uuid::Uuid::nil()));
        let (step, confirm_dead, by) = (order.step, order.confirm_dead, order.by.clone());
        let word = Resolve { step, attempt, how, confirm_dead, by };
        if !is_final {
            self.apply(order.job, &Event::Resolve(word), round).map_err(|error| self.in_words(order.job, error))?;
            return Ok(Settled { job: order.job, is_new: false });
        }
        let how = word.how.word();
        let history = self.history(order.job)?;
        let job =
            self.carry_on(order.job, &Continuation::Resolved(word), confirm_dead, how, &order.by, &history, round)?;
        if confirm_dead && let Some(last) = history.get(&order.step).and_then(|tried| tried.last()) {
            self.confirm(last, order.job, &order.by, round);
        }
        Ok(Settled { job, is_new: true })
    }

    fn retry(&mut self, order: &RetryOrder, round: &mut Round) -> Result<Settled, AgainError> {
        let job = self.loaded(order.job)?;
        if order.from_failed && job.header.state == engine::JobState::Success {
            return Err(AgainError::NothingFailed);
        }
        let history = self.history(order.job)?;
        let (how, word) = match order.from_failed {
            true => (Continuation::FromFailed, "from_failed"),
            false => (Continuation::Anew, "retry"),
        };
        let job = self.carry_on(order.job, &how, order.confirm_dead, word, &order.by, &history, round)?;
        if order.confirm_dead {
            let in_doubt = history.values().filter_map(|tried| tried.last()).filter(|last| !last.confirmed);
            in_doubt.for_each(|last| self.confirm(last, order.job, &order.by, round));
        }
        Ok(Settled { job, is_new: true })
    }

    #[expect(clippy::too_many_arguments, reason = "an old job, what is to become of it, by whom, and what is known")]
    fn carry_on(
        &mut self,
        old: JobId,
        how: &Continuation,
        confirm_dead: bool,
        word: &'static str,
        by: &str,
        history: &History,
        round: &mut Round,
    ) -> Result<JobId, AgainError> {
        let resolves = *how != Continuation::Anew;
        if resolves && let Some(job) = self.stands_in_for(old, round)? {
            return Err(AgainError::AlreadyContinued(job));
        }
        let id = JobId(self.random.uuid(round.now));
        let last = |ix: StepIx| {
            let last = history.get(&ix)?.last()?;
            Some(LastAttempt { confirmed: last.confirmed, ended_at: last.ended_at })
        };
        self.new_from(id, old, how, confirm_dead, &last, by, round).map_err(|error| self.in_words(old, error))?;
        let lineage = LineageRow { job: id, continues: old, resolves, how: word, by: by.to_owned(), at: round.now };
        round.lineage.push(lineage);
        let reason = format!("goes on as job {id} ({}), asked by {by}", word.replace('_', " "));
        round.tell(old, Note { at: round.now, about: About::Continued, reason });
        Ok(id)
    }

    /// The job that already goes on where `old` ended.
    fn stands_in_for(&self, old: JobId, round: &Round) -> Result<Option<JobId>, AgainError> {
        let in_round = round.lineage.iter().find(|row| row.continues == old && row.resolves).map(|row| row.job);
        Ok(in_round.or(self.store.reader().lineage(old)?.resolved_by))
    }

    /// A person's word that an attempt is over, kept as evidence.
    fn confirm(&mut self, attempt: &AttemptView, job: JobId, by: &str, round: &mut Round) {
        round.confirmed.push((attempt.id, engine::Fence(attempt.fence)));
        let worker = attempt.worker_name.clone().unwrap_or_else(|| attempt.worker.to_string());
        let reason = format!("attempt {} on worker {worker} is over: {by} says so", attempt.number);
        let about = About::Attempt { step: attempt.ix, worker: attempt.worker, what: AttemptNews::Confirmed };
        round.tell(job, Note { at: round.now, about, reason });
    }

    fn loaded(&mut self, job: JobId) -> Result<&engine::Job, AgainError> {
        match self.cache.load(job, &mut self.store, &self.definitions) {
            Ok(cached) => Ok(&cached.job),
            Err(LoadError::NotFound) => Err(EventError::NoSuchJob.into()),
            Err(LoadError::Store(error)) => Err(error.into()),
        }
    }

    fn attempts_of(&self, job: JobId) -> Result<History, AgainError> {
        let mut history = History::new();
        for attempt in self.store.reader().attempts(job)? {
            history.entry(attempt.ix).or_default().push(attempt);
        }
        Ok(history)
    }

    /// Each step's attempts. One that was taken over without running has those of the job that it came from.
    fn history(&self, job: JobId) -> Result<History, AgainError> {
        let reader = self.store.reader();
        let mut history = History::new();
        let mut next = Some(job);
        for _ in 0..LINEAGE_MAX {
            let Some(job) = next else { break };
            for (ix, tried) in self.attempts_of(job)? {
                history.entry(ix).or_insert(tried);
            }
            let Lineage { continues, .. } = reader.lineage(job)?;
            next = continues;
        }
        Ok(history)
    }

    /// Steps by their names, for whoever asked.
    fn in_words(&mut self, job: JobId, error: EventError) -> AgainError {
        match error {
            EventError::Rejected(Rejection::MayStillRun { steps }) => {
                let name = |ix: &StepIx| {
                    let cached = self.cache.get(job);
                    cached.map_or_else(String::new, |c| format!("`{}`", c.job.definition.step(*ix).name))
                };
                AgainError::MayStillRun(steps.iter().map(name).collect())
            }
            error => error.into(),
        }
    }
}

/// Each step's attempts, the oldest first.
type History = BTreeMap<StepIx, Vec<AttemptView>>;

impl ResolveOrder {
    /// Compares what the caller saw with what is there, and fills in what only the rows hold.
    fn check(&self, tried: &[AttemptView]) -> Result<Resolution, AgainError> {
        let about = match self.how {
            How::AcceptLate => {
                Some(tried.iter().rev().find(|a| a.late_outcome.is_some()).ok_or(AgainError::NothingLate)?)
            }
            How::Succeeded { .. } | How::Failed { .. } | How::Rerun => tried.last(),
        };
        if about.map(|a| a.id) != self.attempt {
            let now = about.map_or("none".to_owned(), |a| format!("attempt {} ({})", a.number, a.id));
            return Err(AgainError::Newer(format!("the attempt to look at is another one now: {now}")));
        }
        let late = about.and_then(|a| a.late_outcome.as_deref());
        let late_value = late.map(|text| serde_json::from_str(text).unwrap_or(Value::String(text.to_owned())));
        if late_value != self.late_outcome {
            let now = late.unwrap_or("none");
            return Err(AgainError::Newer(format!("the attempt's late end is not the one that you saw; it is: {now}")));
        }
        Ok(match &self.how {
            How::Succeeded { output } => Resolution::Succeeded { output: output.clone() },
            How::Failed { reason } => Resolution::Failed { reason: reason.clone() },
            How::Rerun => Resolution::Rerun,
            How::AcceptLate => {
                let end: Option<End> = late.and_then(|text| serde_json::from_str(text).ok());
                Resolution::AcceptLate { report: super::links::report(&end.ok_or(AgainError::NothingLate)?) }
            }
        })
    }
}
