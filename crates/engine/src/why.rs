//! Why a job is where it is: for each step who must move it, the last sign of life, and what happens next.
//!
//! A pure function over the same data that decisions are made from; the server answers `why` with it.

mod line;
mod reasons;
mod summary;
pub(crate) mod words;

use std::sync::Arc;

use crate::apply::Origin;
use crate::failure::FailureKind;
use crate::ids::{JobId, StepIx, WorkerId};
use crate::job::{Job, JobState, Step};
use crate::state::StateName;
use crate::time::{Clocks, Time};
use crate::workers::Unwilling;

/// The whole answer, in words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// One or two sentences for the whole job.
    pub summary: String,
    pub steps: Vec<StepWhy>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepWhy {
    pub name: Arc<str>,
    pub state: StateName,
    /// Who must move it: `worker build-1`, `the dispatcher`, `step build`, `a person`.
    pub owner: String,
    pub last_sign_of_life: Option<Time>,
    pub reason: String,
    /// What happens then without any outside event; none once the step is final.
    pub next: Option<NextCheck>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextCheck {
    pub at: Time,
    pub action: String,
}

/// The workers, as far as an explanation needs them.
pub trait Roster {
    /// None if the worker was removed.
    fn worker(&self, id: WorkerId) -> Option<WorkerView>;

    /// How the fleet stands to a step with these tags.
    fn matching(&self, tags: &[Arc<str>]) -> MatchView;

    /// Attempts of this step that are not settled by their state: given up without proof, or with an end that came late.
    fn loose_ends(&self, step: StepIx) -> Vec<LooseEnd>;

    /// When the runner of the step's current attempt last showed that it lives.
    fn runner_seen(&self, step: StepIx) -> Option<Time>;

    /// The worker itself speaks for the step's current attempt: it fetches the files that the step needs, or stores those it left.
    fn carries_files(&self, _step: StepIx) -> bool {
        false
    }

    /// How the job stands that does this step, if that is known.
    fn child(&self, _step: StepIx) -> Option<JobState> {
        None
    }

    /// Why a step that never ran in the job stands as it does, if that is known.
    fn origin(&self, _step: StepIx) -> Option<Origin> {
        None
    }

    /// An operator's order that nothing new is handed out.
    fn pause(&self) -> Option<PauseView>;

    /// Whom the job waits for, if it waits for its concurrency group.
    fn line(&self) -> Option<LineView> {
        None
    }
}

/// A job's place among those that wait for a concurrency group, and who has the slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineView {
    /// How many wait before it.
    pub before: u32,
    pub holders: Vec<HolderView>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderView {
    pub job: JobId,
    /// The job is over, and this of it may still run.
    pub doubt: Option<DoubtView>,
}

/// An attempt that was given up and holds a slot, since nobody knows whether it still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubtView {
    pub step: String,
    pub number: u32,
    pub worker: String,
    pub given_up_at: Option<Time>,
    /// Then the slot is free in any case.
    pub until: Time,
}

/// An attempt that was given up, and of which not all is known, or more than its step took into account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LooseEnd {
    pub number: u32,
    /// The worker's name: it may have been removed since.
    pub worker: String,
    pub given_up_at: Option<Time>,
    /// Known to be over with all its processes.
    pub confirmed: bool,
    /// Its own word on its end, which came after it was given up.
    pub late: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseView {
    pub since: Time,
    pub by: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    pub name: String,
    pub host: String,
    pub connected: bool,
    pub last_seen: Option<Time>,
}

/// Who could take a step with certain tags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MatchView {
    /// Workers that are connected and take new work, whatever their tags.
    pub connected: u32,
    /// Those of them that have all the tags.
    pub matching: u32,
    /// Those of the matching ones that have no free slot.
    pub busy: u32,
    /// Those of the matching ones that refused an offer, and are left alone for a moment.
    pub refusals: Vec<Refusal>,
    /// Slots of the matching ones, and how many of them are taken.
    pub slots: u32,
    pub slots_taken: u32,
    /// Workers that have all the tags but are cut off, draining or otherwise not to be had now.
    pub away: Vec<Unwilling>,
    /// Tags that no known worker has.
    pub missing: Vec<Arc<str>>,
}

/// A worker that would not take a step now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub worker: String,
    /// Its reason, as in `its disk is full`, if it is known.
    pub why: Option<String>,
}

/// Explains `job` as it stands by these clocks.
pub fn why(job: &Job, roster: &dyn Roster, clocks: &Clocks) -> Why {
    let expired = |step: &Step| step.error.as_ref().is_some_and(|error| error.kind == FailureKind::Expired);
    let view = View { job, roster, now: clocks.now, clocks: *clocks, expired: job.steps.iter().any(expired) };
    let mut steps: Vec<StepWhy> = (0..job.steps.len()).map(|index| view.step(StepIx::of(index))).collect();
    let summary = view.summary(&steps);
    // That is for who looks closer.
    for (index, step) in steps.iter_mut().enumerate() {
        step.reason += &view.hold_expires(StepIx::of(index));
    }
    Why { summary, steps }
}

/// What the explanations are drawn from.
struct View<'a> {
    job: &'a Job,
    roster: &'a dyn Roster,
    now: Time,
    clocks: Clocks,
    /// The job expired before it started.
    expired: bool,
}
