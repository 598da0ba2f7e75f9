//! A job: its definition, where each of its steps is, and the counts that follow from that.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::attempt::ArtifactSet;
use crate::deadline::Deadline;
use crate::definition::{Definition, RunBody, StepDef};
use crate::event::Changes;
use crate::failure::Failure;
use crate::ids::{AttemptId, Epoch, Fence, JobId, StepIx, WorkerId};
use crate::state::{State, StateName};
use crate::time::Time;

/// One execution of a task, with the definition that it was submitted with.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: JobId,
    /// The step that began it, which waits for its end.
    pub parent: Option<Parent>,
    /// The job on whose end it follows. Nothing follows on its own.
    pub hook_of: Option<JobId>,
    pub definition: Arc<Definition>,
    pub input: Arc<Value>,
    /// The concurrency group that it belongs to, by name.
    pub group: Option<Arc<str>>,
    /// The identity of whoever wanted it.
    pub submitted_by: Arc<str>,
    pub created_at: Time,
    pub header: Header,
    /// Those of the definition, then the items of fan-outs in the order in which they came up.
    pub steps: Vec<Step>,
}

/// Whose child a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    pub job: JobId,
    pub step: StepIx,
}

/// What is known of a job without looking at its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Grows with every committed change, by chance: no two ways that a job could go have the same.
    pub version: u64,
    pub state: JobState,
    pub counts: Counts,
    /// When its group had room for it. None while it waits for that, and where it has no group.
    pub admitted_at: Option<Time>,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub error: Option<JobError>,
    pub cancel: Option<CancelOrder>,
    pub timeout_at: Option<Time>,
    /// A notice is due then, if it is still open; none where nothing is expected, or the notice was given.
    pub expect_at: Option<Time>,
    /// When it was noticed that it takes longer than expected.
    pub late_at: Option<Time>,
    /// How many notices it has had, with those of its steps.
    pub notices: u32,
    /// Set while only a person can move the job on; that time counts neither towards its timeout nor as expected.
    pub held_since: Option<Time>,
    /// Something of it, or of a child, was given up and may still run: nothing may follow on it without a word.
    pub strays: bool,
    /// It lost touch with a worker, or lost one, on the way.
    pub recovered: bool,
    /// The last time that the database was put back to an earlier state while the job was open, as far as the job was told.
    pub restored_at: Option<Time>,
    /// Attempts of jobs of the same family that are not on record, and that workers have.
    pub unborn: Vec<Unborn>,
    /// None once the job is final.
    pub check: Option<Deadline>,
}

/// The first failure that counts, and whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobError {
    pub failure: Failure,
    pub step: Option<StepIx>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelOrder {
    pub at: Time,
    pub by: String,
    pub force: bool,
    pub cause: CancelCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    Asked,
    JobTimeout,
}

/// One node of a job's graph, as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub state: State,
    /// It is one of the many that a step of the definition became.
    pub item: Option<Item>,
    /// The items that it became, once they are known.
    pub fan: Option<Fan>,
    /// Of items whose list is not on record: attempts that workers have of them.
    pub unlisted: Vec<Unlisted>,
    /// How many of its needs are not final yet; counted while it is pending. An item needs its turn.
    pub unmet: u32,
    /// How many attempts were granted; the number of the latest.
    pub attempts: u32,
    /// How many of them count as executions for the retry policy.
    pub executions: u32,
    /// How many of them were lost and repeated by effects.
    pub losses: u32,
    /// How many offers in a row stayed unanswered.
    pub unanswered_offers: u32,
    /// Nothing is heard of it, and the installation leaves it to an operator what follows.
    pub for_operator: bool,
    /// It may have run in a time that is not on record any more: nothing of it begins before a person says so.
    pub in_doubt: bool,
    /// When it was noticed that an attempt takes longer than expected; and that it waits too long in the queue.
    pub late_at: Option<Time>,
    pub queue_old_at: Option<Time>,
    /// When a job of its own, or its items, last began to do it.
    pub delegated_at: Option<Time>,
    /// The worker that let the last offer go; another one is tried first.
    pub avoid: Option<WorkerId>,
    /// The program with its templates filled in, once queued; none where the definition's own serves.
    pub rendered: Option<Arc<RunBody>>,
    pub output: Value,
    /// The files that its last attempt left.
    pub artifacts: Option<ArtifactSet>,
    pub error: Option<Failure>,
    /// None once the step is final.
    pub check: Option<Deadline>,
    pub updated_at: Time,
}

/// The place of a step in a fan-out.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The step that it was made for.
    pub of: StepIx,
    /// Its place in the list, from 0.
    pub number: u32,
    pub value: Arc<Value>,
}

/// The items of a fan-out, side by side among the job's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fan {
    pub first: StepIx,
    pub count: u32,
    /// So many, from the first on, had their turn.
    pub begun: u32,
    /// How many of those are not final.
    pub under_way: u32,
    /// How many of all are not final.
    pub open: u32,
    /// Nobody gets a turn any more.
    pub closed: bool,
}

/// An attempt of an item that ran before the database lost the list. It is the item's as soon as the list is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unlisted {
    /// The item's place in the list.
    pub number: u32,
    pub attempt: AttemptId,
    pub fence: Fence,
    pub worker: WorkerId,
    pub epoch: Epoch,
}

/// An attempt of a child job that ran before the database lost its birth. It is that job's as soon as it is begun again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unborn {
    pub job: JobId,
    pub step: String,
    pub attempt: AttemptId,
    pub fence: Fence,
    pub worker: WorkerId,
    pub epoch: Epoch,
}

/// How many steps are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    by_state: [u32; StateName::ALL.len()],
    /// Those of the running ones whose items stand for them.
    fanned_out: u32,
    /// Those of the running ones that wait for a job that waits for a person.
    held_children: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobState {
    Pending,
    Running,
    Held,
    Recovering,
    Cancelling,
    Success,
    Failed,
    Cancelled,
}

impl Job {
    pub fn step(&self, ix: StepIx) -> &Step {
        &self.steps[ix.get()]
    }

    /// Where the step is. An item that is not there has not come up yet; or again, if commits were lost.
    pub fn state(&self, ix: StepIx) -> &State {
        self.steps.get(ix.get()).map_or(&State::Pending, |step| &step.state)
    }

    /// What the step is to do; for an item, what the step that it was made for is.
    pub fn def(&self, ix: StepIx) -> &StepDef {
        let of = self.step(ix).item.as_ref().map_or(ix, |item| item.of);
        self.definition.step(of)
    }

    /// `build`, or `each[3]`.
    pub fn name(&self, ix: StepIx) -> Cow<'_, str> {
        match &self.step(ix).item {
            Some(item) => Cow::Owned(item.name(&self.definition)),
            None => Cow::Borrowed(&self.definition.step(ix).name),
        }
    }

    /// The step of this name. Items are known once their list is.
    pub fn find(&self, name: &str) -> Option<StepIx> {
        if let Some(ix) = self.definition.find(name) {
            return Some(ix);
        }
        let (of, number) = self.item_of(name)?;
        let fan = self.step(of).fan?;
        (number < fan.count).then(|| fan.item(number))
    }

    /// The fan-out and the place in its list, if this is the name of an item that may come up yet.
    pub fn unlisted_item(&self, name: &str) -> Option<(StepIx, u32)> {
        let (of, number) = self.item_of(name)?;
        let step = self.step(of);
        let comes_up = self.def(of).fan_out.is_some() && step.fan.is_none() && !step.state.is_final();
        comes_up.then_some((of, number))
    }

    /// What the name of an item says.
    fn item_of(&self, name: &str) -> Option<(StepIx, u32)> {
        let (of, number) = name.strip_suffix(']')?.rsplit_once('[')?;
        // One name each: `each[007]` is nobody's.
        let place = number.parse().ok().filter(|n: &u32| n.to_string() == number)?;
        Some((self.definition.find(of)?, place))
    }

    pub fn is_final(&self) -> bool {
        self.header.state.is_final()
    }

    /// Whether nothing of it may begin, since its group has had no room for it yet.
    pub fn awaits_slot(&self) -> bool {
        self.group.is_some() && self.header.admitted_at.is_none() && !self.is_final()
    }

    /// Takes over what [`crate::apply`] decided, once it is committed.
    pub fn absorb(&mut self, changes: &Changes) {
        self.header = changes.header.clone();
        for (ix, step) in &changes.steps {
            match self.steps.get_mut(ix.get()) {
                Some(known) => *known = step.clone(),
                None => self.steps.push(step.clone()),
            }
        }
    }
}

impl Step {
    pub(crate) fn new(unmet: usize, now: Time) -> Step {
        Step {
            state: State::Pending,
            item: None,
            fan: None,
            unlisted: Vec::new(),
            unmet: u32::try_from(unmet).expect("a step has fewer needs than a task has steps"),
            attempts: 0,
            executions: 0,
            losses: 0,
            unanswered_offers: 0,
            for_operator: false,
            in_doubt: false,
            late_at: None,
            queue_old_at: None,
            delegated_at: None,
            avoid: None,
            rendered: None,
            output: Value::Null,
            artifacts: None,
            error: None,
            check: None,
            updated_at: now,
        }
    }
}

impl Item {
    /// `each[3]`.
    pub fn name(&self, definition: &Definition) -> String {
        format!("{}[{}]", definition.step(self.of).name, self.number)
    }
}

impl Fan {
    pub fn item(self, number: u32) -> StepIx {
        StepIx(self.first.0 + number)
    }

    pub fn items(self) -> impl Iterator<Item = StepIx> {
        (0..self.count).map(move |number| self.item(number))
    }
}

impl Counts {
    pub fn get(&self, state: StateName) -> u32 {
        self.by_state[state as usize]
    }

    pub fn set(&mut self, state: StateName, count: u32) {
        self.by_state[state as usize] = count;
    }

    pub(crate) fn moved(&mut self, from: &State, to: &State) {
        self.by_state[from.name() as usize] -= 1;
        self.fanned_out -= u32::from(from.is_fanned_out());
        self.held_children -= u32::from(from.has_held_child());
        self.entered(to);
    }

    pub(crate) fn entered(&mut self, state: &State) {
        self.by_state[state.name() as usize] += 1;
        self.fanned_out += u32::from(state.is_fanned_out());
        self.held_children += u32::from(state.has_held_child());
    }

    /// How many of the running steps are so only by their items.
    pub fn fanned_out(&self) -> u32 {
        self.fanned_out
    }

    pub fn set_fanned_out(&mut self, count: u32) {
        self.fanned_out = count;
    }

    /// As the steps say: no header has ever stored it.
    pub fn take_held_children(&mut self, steps: &Counts) {
        self.held_children = steps.held_children;
    }

    pub fn of(steps: &[Step]) -> Counts {
        let mut counts = Counts::default();
        steps.iter().for_each(|step| counts.entered(&step.state));
        counts
    }

    /// How many steps are not final.
    pub fn open(&self) -> u32 {
        StateName::ALL.into_iter().filter(|s| !s.is_final()).map(|s| self.get(s)).sum()
    }

    /// The state of a job with these counts that is not final.
    pub(crate) fn open_state(&self, cancelled: bool, started: bool) -> JobState {
        use StateName::{Cancelling, Queued, Recovering, Running, Waiting};
        let still = self.fanned_out + self.held_children;
        let moving = self.get(Running) > still || [Queued, Waiting, Cancelling].into_iter().any(|s| self.get(s) > 0);
        match (cancelled, moving, started) {
            (true, ..) => JobState::Cancelling,
            (false, true, true) => JobState::Running,
            (false, true, false) => JobState::Pending,
            (false, false, _) if self.get(Recovering) > 0 => JobState::Recovering,
            // What is pending waits for a step that is not, so one of those is left: a held one, or one whose child job is.
            (false, false, _) => JobState::Held,
        }
    }
}

impl JobState {
    pub const ALL: [JobState; 8] = [
        JobState::Pending,
        JobState::Running,
        JobState::Held,
        JobState::Recovering,
        JobState::Cancelling,
        JobState::Success,
        JobState::Failed,
        JobState::Cancelled,
    ];

    pub fn word(self) -> &'static str {
        match self {
            JobState::Pending => "pending",
            JobState::Running => "running",
            JobState::Held => "held",
            JobState::Recovering => "recovering",
            JobState::Cancelling => "cancelling",
            JobState::Success => "success",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    pub fn from_word(word: &str) -> Option<JobState> {
        JobState::ALL.into_iter().find(|state| state.word() == word)
    }

    pub fn is_final(self) -> bool {
        match self {
            JobState::Success | JobState::Failed | JobState::Cancelled => true,
            JobState::Pending | JobState::Running | JobState::Held | JobState::Recovering | JobState::Cancelling => {
                false
            }
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts come back from a row as they went into it.
    #[test]
    fn counts_are_what_they_were_set_to() {
        let mut counts = Counts::default();
        for (number, state) in (1..).zip(StateName::ALL) {
            counts.set(state, number);
        }
        counts.set_fanned_out(2);
        assert_eq!(StateName::ALL.map(|state| counts.get(state)), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(counts.fanned_out(), 2);
        assert_eq!(counts.open(), 1 + 2 + 3 + 4 + 5 + 6 + 7);
    }
}
