//! `resolve` and `retry`: a person's word on a step, as an event while its job is open, else by a job that goes on.
//!
//! What they had seen is compared with the rows here, on the ledger's thread, so that nothing newer slips in between.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use engine::event::{About, AttemptNews, Note};
use engine::{AttemptId, Continuation, Event, JobId, LastAttempt, Rejection, Resolution, Resolve, StepIx};
use protocol::attempt::End;
use serde_json::Value;
use store::read::AttemptView;
use store::rows::LineageRow;
use store::{Store, StoreError};

use super::cache::LoadError;
use super::command::EventError;
use super::core::Core;
use super::family::Family;
use super::groups::GroupFull;
use super::round::Round;

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

#[derive(Debug, Clone, PartialEq)]
pub struct RetryOrder {
    pub job: JobId,
    /// Keep what ended well.
    pub from_failed: bool,
    /// Instead of the old job's inputs; checked, and whole. Not where something is kept, which ended with the old ones.
    pub input: Option<Value>,
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
    /// It stands in for the job, or it does not let another go on beside it.
    #[error("job {0} already continues this one")]
    AlreadyContinued(JobId),
    #[error("the step has no end that came late")]
    NothingLate,
    /// Whoever began it begins it again.
    #[error("a step of job {0} began this one: that is the one to go on with")]
    IsChild(JobId),
    #[error("nothing in this job failed")]
    NothingFailed,
    #[error("what ended well ended with the old inputs, and cannot be kept with others")]
    ChangedInput,
    #[error("an attempt of {} may still run", .0.join(", "))]
    MayStillRun(Vec<String>),
    /// Its task does not want to wait.
    #[error(transparent)]
    GroupFull(GroupFull),
    /// Its group cannot be told from its other inputs.
    #[error("{0}")]
    Group(String),
}

impl From<StoreError> for AgainError {
    fn from(error: StoreError) -> AgainError {
        EventError::from(error).into()
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
        self.not_a_child(order.job)?;
        let family = self.family(order.job, round)?;
        if let Some(kin) = self.open_kin(order.job, &family)? {
            return Err(AgainError::AlreadyContinued(kin.job));
        }
        let word = Word {
            how: word.how.word(),
            confirm_dead,
            by: &order.by,
            continuation: Continuation::Resolved(Box::new(word)),
            input: None,
        };
        let job = self.carry_on(order.job, &word, &family, Some(order.step), round)?;
        Ok(Settled { job, is_new: true })
    }

    fn retry(&mut self, order: &RetryOrder, round: &mut Round) -> Result<Settled, AgainError> {
        self.not_a_child(order.job)?;
        let job = self.loaded(order.job)?;
        if order.from_failed && job.header.state == engine::JobState::Success {
            return Err(AgainError::NothingFailed);
        }
        let is_final = job.is_final();
        let input = order.input.as_ref().filter(|input| **input != *job.input);
        let (continuation, how) = match (order.from_failed, input) {
            (true, Some(_)) => return Err(AgainError::ChangedInput),
            (true, None) => (Continuation::FromFailed, "from_failed"),
            (false, Some(_)) => (Continuation::Anew, "retry_changed"),
            (false, None) => (Continuation::Anew, "retry"),
        };
        let family = self.family(order.job, round)?;
        if is_final && let Some(kin) = self.open_kin(order.job, &family)? {
            // Whoever asks for the same once more has not heard the answer, or is the second to ask.
            let same_input = input.is_none_or(|input| self.loaded(kin.job).is_ok_and(|kin| *kin.input == *input));
            let asked_before = kin.continues == order.job && kin.how == how && same_input;
            let already = Settled { job: kin.job, is_new: false };
            return if asked_before { Ok(already) } else { Err(AgainError::AlreadyContinued(kin.job)) };
        }
        let word = Word { continuation, how, confirm_dead: order.confirm_dead, by: &order.by, input };
        let job = self.carry_on(order.job, &word, &family, None, round)?;
        Ok(Settled { job, is_new: true })
    }

    /// Beside a job that goes on for a child its parent would begin another one, and both would run the same steps.
    fn not_a_child(&mut self, job: JobId) -> Result<(), AgainError> {
        self.loaded(job)?.parent.map_or(Ok(()), |parent| Err(AgainError::IsChild(parent.job)))
    }

    /// Makes the job that goes on. A word that attempts are over is about those of `step`, or about all.
    fn carry_on(
        &mut self,
        old: JobId,
        word: &Word<'_>,
        family: &Family,
        step: Option<StepIx>,
        round: &mut Round,
    ) -> Result<JobId, AgainError> {
        let &Word { ref continuation, how, confirm_dead, by, input } = word;
        let resolves = *continuation != Continuation::Anew;
        if resolves && let Some(job) = self.stands_in_for(old, round)? {
            return Err(AgainError::AlreadyContinued(job));
        }
        let history = self.history(old, family, round)?;
        let id = JobId(self.random.uuid(round.now));
        let job = self.loaded(old)?;
        let (definition, mut group) = (job.definition.clone(), job.group.clone());
        if let Some(input) = input {
            group = engine::group_of(&definition, input, id, &self.evaluator).map_err(AgainError::Group)?;
        }
        if let Some(group) = &group {
            self.has_room(group, &definition, round)?.map_err(AgainError::GroupFull)?;
        }
        let input = input.map(|input| (input, group));
        let last = |ix: StepIx| history.get(&ix).and_then(|tried| most_doubtful(tried));
        self.new_from(id, old, continuation, input, confirm_dead, &last, by, round)
            .map_err(|error| self.in_words(old, error))?;
        let (root, number, by) = (family.root, family.next_number(), by.to_owned());
        round.lineage.push(LineageRow { job: id, continues: old, root, number, resolves, how, by, at: round.now });
        let reason = format!("continued by job {id} ({}), asked by {}", how.replace('_', " "), word.by);
        round.tell(old, Note { at: round.now, about: About::Continued, reason });
        if confirm_dead {
            let meant = history.iter().filter(|(ix, _)| step.is_none_or(|step| step == **ix));
            let in_doubt = meant.flat_map(|(_, tried)| tried).filter(|(_, last)| !last.confirmed);
            in_doubt.for_each(|(job, last)| self.confirm(last, *job, word.by, round));
        }
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
        self.doubt_is_over(job, round);
        let worker = attempt.worker_name.clone().unwrap_or_else(|| attempt.worker.to_string());
        let reason = format!("attempt {} on worker {worker} is over: {by} says so", attempt.number);
        let about = About::Attempt { step: attempt.ix, worker: attempt.worker, what: AttemptNews::Confirmed };
        round.tell(job, Note { at: round.now, about, reason });
    }

    pub(super) fn loaded(&mut self, job: JobId) -> Result<&engine::Job, AgainError> {
        match self.cache.load(job, &mut self.store, &self.definitions) {
            Ok(cached) => Ok(&cached.job),
            Err(LoadError::NotFound) => Err(EventError::NoSuchJob.into()),
            Err(LoadError::Store(error)) => Err(error.into()),
        }
    }

    /// Each step's attempts, the oldest first.
    fn attempts_of(&self, job: JobId) -> Result<BTreeMap<StepIx, Vec<AttemptView>>, AgainError> {
        let mut tried: BTreeMap<StepIx, Vec<AttemptView>> = BTreeMap::new();
        for attempt in self.store.reader().attempts(job)? {
            tried.entry(attempt.ix).or_default().push(attempt);
        }
        Ok(tried)
    }

    /// The last attempts of each step of `old` in all jobs of its family: whatever may still run of it runs beside a new one.
    fn history(&mut self, old: JobId, family: &Family, round: &Round) -> Result<History, AgainError> {
        let mut history = History::new();
        for job in family.jobs() {
            let mut own = History::new();
            for (ix, mut tried) in self.attempts_of(job)? {
                own.entry(ix).or_default().extend(tried.pop().map(|last| (job, last)));
            }
            self.add_children(job, None, round, &mut own)?;
            for (ix, tried) in own {
                history.entry(self.place_in(old, job, ix)?).or_default().extend(tried);
            }
        }
        Ok(history)
    }

    /// Where `old` has a step of another job of its family. Items come up in any order, so that each job may have them in
    /// other places; where it has no such item, what is known of that one is about the step that it was of.
    fn place_in(&mut self, old: JobId, other: JobId, ix: StepIx) -> Result<StepIx, AgainError> {
        let of_file = self.loaded(old)?.definition.steps().len();
        if ix.get() < of_file || other == old {
            return Ok(ix);
        }
        let item = match self.loaded(other) {
            Ok(job) => job.steps.get(ix.get()).and_then(|step| step.item.as_ref()).map(|item| (item.of, item.number)),
            Err(AgainError::Event(EventError::NoSuchJob)) => None,
            Err(error) => return Err(error),
        };
        let Some((of, number)) = item else { return Ok(ix) };
        let fan = self.loaded(old)?.step(of).fan.filter(|fan| number < fan.count);
        Ok(fan.map_or(of, |fan| fan.item(number)))
    }

    /// What may still run of the jobs that steps of this one began, as those steps' own. `of`: the step of the outermost
    /// job that all of this is for.
    fn add_children(
        &mut self,
        job: JobId,
        of: Option<StepIx>,
        round: &Round,
        history: &mut History,
    ) -> Result<(), AgainError> {
        for child in self.store.reader().children(job, CHILDREN_MAX)? {
            let tried = self.attempts_of(child)?;
            let (rules, now) = (self.config.rules.clone(), round.now);
            let begun = self.loaded(child)?;
            let Some(ix) = of.or(begun.parent.map(|parent| parent.step)) else { continue };
            let lasts = tried.into_iter().filter_map(|(step, mut tried)| Some((step, tried.pop()?)));
            let in_doubt = lasts.filter(|(step, last)| {
                let last = LastAttempt { confirmed: last.confirmed, ended_at: last.ended_at };
                !last.may_be_followed(begun.def(*step), &rules, now)
            });
            history.entry(ix).or_default().extend(in_doubt.map(|(_, last)| (child, last)));
            self.add_children(child, Some(ix), round, history)?;
        }
        Ok(())
    }

    /// Steps by their names, for whoever asked.
    fn in_words(&mut self, job: JobId, error: EventError) -> AgainError {
        match error {
            EventError::Rejected(Rejection::MayStillRun { steps }) => {
                let name = |ix: &StepIx| {
                    let cached = self.cache.get(job);
                    cached.map_or_else(String::new, |c| format!("`{}`", c.job.name(*ix)))
                };
                AgainError::MayStillRun(steps.iter().map(name).collect())
            }
            error => error.into(),
        }
    }
}

/// The jobs that one job began of which it is asked whether something of them still runs.
const CHILDREN_MAX: usize = 10_000;

/// Each step's last attempts, with the jobs that they are of.
type History = BTreeMap<StepIx, Vec<(JobId, AttemptView)>>;

/// What is to become of a job that is over, and who says so.
struct Word<'a> {
    continuation: Continuation,
    /// For the rows.
    how: &'static str,
    confirm_dead: bool,
    by: &'a str,
    /// Other inputs than the old job's.
    input: Option<&'a Value>,
}

/// Of which it is least certain that it is over.
fn most_doubtful(tried: &[(JobId, AttemptView)]) -> Option<LastAttempt> {
    let lasts = tried.iter().map(|(_, a)| LastAttempt { confirmed: a.confirmed, ended_at: a.ended_at });
    lasts.min_by_key(|last| (last.confirmed, last.ended_at.is_some(), Reverse(last.ended_at)))
}

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
