//! Promise: every step and every job ends as the reference model says that it must, from the plan and from what really
//! happened; and what the server has on record of a program's end is how it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{AttemptId, JobId, StepIx};
use store::Batch;

use super::Findings;
use super::gates::Gates;
use super::lives::Lives;
use super::plans::Plans;
use super::rows::{AttemptSeen, JobSeen, Place, Rows};
use crate::model::{
    self, AttemptStory, ChildStory, End, Items, JobStory, Outputs, ProgramEnd, Reason, Source, StepStory,
};
use crate::setup::Setup;
use crate::workload::JobPlan;

const CHECKER: &str = "model";

/// What people and the database did that the model has to know.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    rejected: BTreeSet<Place>,
    resolved: BTreeMap<Place, Vec<End>>,
    refused: BTreeSet<JobId>,
    /// Jobs of which the order to stop them, or a step of theirs, is not on record any more; workers may have heard it.
    unrecorded_stops: BTreeSet<JobId>,
    troubled: bool,
    max_losses: u32,
}

impl Ends {
    pub(crate) fn new(setup: &Setup) -> Ends {
        Ends { max_losses: setup.core.rules.max_losses, ..Ends::default() }
    }

    pub(crate) fn reject_asked(&mut self, place: Place) {
        self.rejected.insert(place);
    }

    pub(crate) fn resolve_asked(&mut self, place: Place, end: End) {
        self.resolved.entry(place).or_default().push(end);
    }

    pub(crate) fn refused(&mut self, batch: &Batch) {
        self.refused.extend(batch.jobs.iter().map(|write| write.row.id));
    }

    /// Commits are gone in which this job was asked to stop, or one of its steps was told to.
    pub(super) fn stop_is_forgotten(&mut self, job: JobId) {
        self.unrecorded_stops.insert(job);
    }

    pub(crate) fn troubled(&mut self) {
        self.troubled = true;
    }

    pub(crate) fn at_the_end(
        &self,
        rows: &Rows,
        plans: &Plans,
        (lives, gates): (&Lives, &Gates),
        found: &mut Findings,
    ) {
        for (id, job) in rows.jobs.iter().filter(|(_, job)| job.is_final) {
            let Some(plan) = plans.job(rows, *id) else { continue };
            self.job_at_the_end(*id, job, plan, rows, (lives, gates), found);
        }
    }

    fn job_at_the_end(
        &self,
        id: JobId,
        job: &JobSeen,
        plan: &JobPlan,
        rows: &Rows,
        (lives, gates): (&Lives, &Gates),
        found: &mut Findings,
    ) {
        let states = job.steps.values().map(|step| Some((End::of(step.state)?, step.error_code)));
        let Some(ends) = states.collect::<Option<Vec<(End, Option<&str>)>>>() else {
            let open: Vec<&str> = job.steps.values().map(|step| step.state).collect();
            return found.add(CHECKER, format!("job {id} is {} with steps {open:?}", job.state));
        };
        let story = JobStory {
            cancelled: job.cancelled_at.is_some(),
            started: job.steps.values().any(|step| !step.attempts.is_empty()) || rows.has_children(id),
            refused: self.refused.contains(&id),
            turned_away: job.was_turned_away(),
            stopped: self.unrecorded_stops.contains(&id),
            troubled: self.troubled,
            input: given(job).unwrap_or_default(),
            max_losses: self.max_losses,
        };
        if job.parent.is_none() && !job.continues && plan.input.is_some_and(|input| given(job) != Some(input)) {
            found.add(CHECKER, format!("job {id} was submitted with {:?}, and has {}", plan.input, job.input));
        }
        let times: Vec<Duration> = job.steps.values().map(|step| step.since).collect();
        let states: Vec<End> = ends.iter().map(|(end, _)| *end).collect();
        let items = Items::of(plan, job, &states);
        let wanted = model::job_end(plan, &ends, &items, &times, &story);
        if wanted.word() != job.state {
            found.add(CHECKER, format!("job {id} is {}, and by its steps {ends:?} it is {wanted:?}", job.state));
        }
        let places = (0..states.len()).map(|index| Place { job: id, step: StepIx::of(index) });
        let stories: Vec<StepStory> = places.map(|place| self.story(place, rows, lives, gates)).collect();
        let outputs = Outputs::of(job, &stories);
        for (index, (end, told)) in states.iter().zip(&stories).enumerate() {
            for attempt in &told.attempts {
                if let Some(wrong) = model::misreported(attempt) {
                    found.add(CHECKER, format!("an attempt of step {index} of {id} {wrong}"));
                }
            }
            // What a continuation took over was decided in the job before it.
            let taken_over = job.continues && told.attempts.is_empty() && told.children.is_empty();
            let allowed = model::step_ends(plan, index, &states, &outputs, &items, &story, told);
            if !taken_over && !allowed.contains(end) {
                let truth = format!("the model allows {allowed:?} after {story:?}, {told:?}, needs {states:?}");
                found.add(CHECKER, format!("step {index} of {id} ({}) ended as {end:?}; {truth}", plan.name));
            }
        }
    }

    fn story(&self, place: Place, rows: &Rows, lives: &Lives, gates: &Gates) -> StepStory {
        let Some(step) = rows.step(place) else { return StepStory::default() };
        let attempts = step.attempts.iter().filter_map(|id| Some(attempt_story(*id, rows.attempts.get(id)?, lives)));
        let children = rows.children(place).into_iter().map(|(id, job)| child_story(id, job, rows));
        let job = rows.job(place.job);
        let cancelled_at = job.and_then(|job| job.cancelled_at);
        StepStory {
            attempts: attempts.collect(),
            children: children.collect(),
            is_item: step.item_of().is_some(),
            approved_by: gates.approvals(place),
            submitter: job.map_or("", |job| job.submitter),
            rejected: self.rejected.contains(&place),
            resolved: self.resolved.get(&place).cloned().unwrap_or_default(),
            code: step.error_code,
            was_doubted: step.was_doubted,
            before_cancel: cancelled_at.is_none_or(|at| step.is_final && step.since <= at),
            out_of_turn: step.attempts.iter().any(|id| lives.was_unrecorded(*id)),
        }
    }
}

/// What the job was given as `n`.
fn given(job: &JobSeen) -> Option<i64> {
    serde_json::from_str::<serde_json::Value>(&job.input).ok()?.get("n")?.as_i64()
}

impl Outputs {
    /// Which of a job's steps a person settled, here or in the job that it goes on for.
    fn of(job: &JobSeen, stories: &[StepStory]) -> Outputs {
        let mut outputs = Outputs::default();
        for (index, told) in stories.iter().enumerate() {
            match told.attempts.last() {
                Some(last) if last.reason == Some(Reason::Person) => outputs.add(index, Source::Person),
                None if job.continues && told.children.is_empty() => outputs.add(index, Source::Either),
                Some(_) | None if told.was_doubted && told.resolved.contains(&End::Success) => {
                    outputs.add(index, Source::Either);
                }
                Some(_) | None => {}
            }
        }
        outputs
    }
}

impl Items {
    /// Which of a job's steps are items of which.
    fn of(plan: &JobPlan, job: &JobSeen, ends: &[End]) -> Items {
        let mut items = Items::default();
        for ((index, step), end) in job.steps.values().enumerate().zip(ends) {
            let of = step.item_of().and_then(|name| plan.steps.iter().position(|step| step.name == name));
            if let Some(of) = of {
                items.add(index, of, *end);
            }
        }
        items
    }
}

fn child_story(id: JobId, job: &JobSeen, rows: &Rows) -> ChildStory {
    let reason = match job.error_code {
        Some("job_timeout") => Reason::Timeout,
        code => Reason::of(code, None, job.error_step.as_deref().and_then(|step| exit_of(id, job, step, rows))),
    };
    ChildStory { end: End::of(job.state), reason, in_doubt: rows.is_in_doubt(id) }
}

/// How the program ended that a step of this name failed by: its own, that of an item, or that of a job which does it.
fn exit_of(id: JobId, job: &JobSeen, name: &str, rows: &Rows) -> Option<i32> {
    let (ix, step) = job.steps.iter().find(|(_, step)| step.name == name)?;
    if let Some(attempt) = step.attempts.last() {
        return rows.attempts.get(attempt)?.code();
    }
    if let Some((child, seen)) = rows.children(Place { job: id, step: *ix }).pop() {
        return exit_of(child, seen, seen.error_step.as_deref()?, rows);
    }
    let item = job.steps.values().find(|item| item.item_of() == Some(name) && item.state == "failed")?;
    exit_of(id, job, &item.name, rows)
}

fn attempt_story(id: AttemptId, attempt: &AttemptSeen, lives: &Lives) -> AttemptStory {
    let program = lives.program(id);
    let code = attempt.settled_as;
    let reported = attempt.exit_code.map(ProgramEnd::Exited).or(attempt.signal.map(ProgramEnd::Signaled));
    AttemptStory {
        reason: code.map(|code| Reason::of(Some(code), attempt.error_message.as_deref(), attempt.code())),
        code,
        program,
        reported,
    }
}
