//! A step that another job does: begun in the transaction in which the step starts, called off with it, and its end is the
//! step's.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::definition::{ChildBody, ChildTask, Work};
use crate::event::{Birth, ChildEnd, ChildOrder, Event, Rejection};
use crate::failure::{Failure, FailureKind};
use crate::ids::{JobId, StepIx};
use crate::job::{Job, JobState, Parent, Unborn};
use crate::state::{Delegate, Delegated, End, Ground, State, StopCause};
use crate::table::Verb;

use super::draft::Draft;
use super::fan_out::OUTPUTS_BYTES_MAX;
use super::groups::group_of;

/// Attempts of lost children that a job remembers; more would be strangers without end.
const UNBORN_MAX: usize = 10_000;

/// What another job is made of.
pub(super) struct Conceived {
    pub task: Arc<ChildTask>,
    pub input: Value,
    pub group: Option<Arc<str>>,
}

impl Draft<'_> {
    /// A worker has an attempt of a child that is not there: it is to be that child's when it is. Of several attempts of one
    /// step the last stands for those before it.
    pub(super) fn unborn(&mut self, unborn: &Unborn) -> Result<(), Rejection> {
        let same = |known: &Unborn| known.job == unborn.job && known.step == unborn.step;
        let newer = |known: &Unborn| same(known) && (known.fence, known.epoch) >= (unborn.fence, unborn.epoch);
        let all = &mut self.header.unborn;
        if all.iter().any(newer) || all.len() >= UNBORN_MAX {
            return Err(Rejection::NotItsChild);
        }
        all.retain(|known| !same(known));
        all.push(unborn.clone());
        Ok(())
    }

    /// What a child job would be made of. What that depends on does not change any more, so it is the same whenever it is
    /// asked for.
    pub(super) fn conceive(&self, ix: StepIx, body: &ChildBody) -> Result<Conceived, Failure> {
        let failed = |kind, problem: String| Failure::new(kind, format!("Step failed: {problem}"));
        let Some(task) = body.bound.clone() else {
            let problem = format!("there was no task `{}` when the job was submitted", body.task);
            return Err(failed(FailureKind::UnknownTask, problem));
        };
        let needs = self.needs_outcome(self.step(ix).item.as_ref().map_or(ix, |item| item.of));
        let fill = |scope: &crate::eval::Scope<'_>| self.ctx.evaluator.fill(&body.with, &self.def(ix).uses, scope);
        let given = self.with_scope(ix, &needs, fill).map_err(|problem| failed(FailureKind::Template, problem))?;
        let input = task.inputs.bind(given).map_err(|problem| {
            failed(FailureKind::InvalidInput, format!("the task `{}` does not take its input: {problem}", body.task))
        })?;
        let group = group_of(&task.definition, &input, self.job.id, self.ctx.evaluator)
            .map_err(|problem| failed(FailureKind::Template, problem))?;
        Ok(Conceived { task, input, group })
    }

    /// Begins a child job, and waits for it.
    pub(super) fn begin_child(&mut self, ix: StepIx, verb: Verb, body: &ChildBody) -> Result<(), Rejection> {
        let conceived = match self.conceive(ix, body) {
            Ok(made) => made,
            Err(failure) => return self.not_begun(ix, verb, failure),
        };
        if verb != Verb::Enqueue {
            // Nobody is waited for, so it leaves the queue as it comes into it.
            self.enqueue(ix, verb, "its child job is to begin")?;
        }
        let now = self.ctx.now;
        let step = self.step_mut(ix);
        step.attempts += 1;
        step.executions += 1;
        step.error = None;
        step.delegated_at = Some(now);
        let number = step.attempts;
        let id = self.job.id.child(ix, number);
        let delegated = Delegated { since: now, to: Delegate::Child(id), called_off: None, held: false };
        let reason = format!("job {id} of task `{}` does it", body.task);
        self.shift(ix, Verb::Start, State::Delegated(delegated), &reason)?;
        self.bear(id, ix, conceived);
        Ok(())
    }

    fn bear(&mut self, id: JobId, ix: StepIx, conceived: Conceived) {
        let Conceived { task, input, group } = conceived;
        let parent = Some(Parent { job: self.job.id, step: ix });
        let (input, submitted_by, hook_of) = (Arc::new(input), self.job.submitted_by.clone(), self.job.hook_of);
        self.children.push(ChildOrder::Begin(Birth { id, parent, hook_of, task, input, group, submitted_by }));
    }

    fn not_begun(&mut self, ix: StepIx, verb: Verb, failure: Failure) -> Result<(), Rejection> {
        if verb != Verb::Enqueue {
            self.enqueue(ix, verb, "its child job is to begin")?;
        }
        let reason = failure.message.clone();
        self.end(ix, Verb::Fail, End::Failed, Some(failure), &reason)
    }

    /// The child job is over: so is this step, or what it does now.
    pub(super) fn child_ended(
        &mut self,
        ix: StepIx,
        child: JobId,
        end: &ChildEnd,
        strays: bool,
    ) -> Result<(), Rejection> {
        let delegated = self.awaits(ix, child)?;
        self.header.strays |= strays;
        let ground = (!strays).then_some(Ground::ReportedGone);
        if let Some(cause) = delegated.called_off {
            return self.ended_called_off(ix, cause, end, ground);
        }
        match end {
            ChildEnd::Success { output } => {
                self.step_mut(ix).output = output.clone();
                self.end(ix, Verb::Succeed, End::Success, None, &format!("job {child} ended well"))
            }
            ChildEnd::Failed(failure) if ground.is_some() => self.fail_or_retry(ix, of_child(child, failure)),
            ChildEnd::Failed(failure) => {
                let failure = of_child(child, failure);
                let reason = format!("{}; nothing follows, since something of it may still run", failure.message);
                self.end(ix, Verb::Fail, End::Failed, Some(failure), &reason)
            }
            ChildEnd::Cancelled(failure) => {
                let failure = of_child(child, failure);
                let reason = failure.message.clone();
                self.end(ix, Verb::Cancel, End::Cancelled, Some(failure), &reason)
            }
        }
    }

    /// Only a person can move the child job on, or the person has: so it is for this step, and for the job's clock.
    pub(super) fn child_held(&mut self, ix: StepIx, child: JobId, held: bool) -> Result<(), Rejection> {
        let delegated = self.awaits(ix, child)?;
        if delegated.held == held {
            return Err(Rejection::KnownOfChild);
        }
        self.put(ix, State::Delegated(Delegated { held, ..delegated }));
        Ok(())
    }

    fn ended_called_off(
        &mut self,
        ix: StepIx,
        cause: StopCause,
        end: &ChildEnd,
        ground: Option<Ground>,
    ) -> Result<(), Rejection> {
        let verb = match (cause, end) {
            (StopCause::StepTimeout, ChildEnd::Success { output }) => {
                self.step_mut(ix).output = output.clone();
                let reason = "its child job ended well, before it heard that it was called off";
                return self.end(ix, Verb::Complete, End::Success, None, reason);
            }
            (StopCause::StepTimeout, ChildEnd::Failed(_) | ChildEnd::Cancelled(_)) => {
                let (failure, _) = self.stop_failure(ix, cause);
                return self.timed_out(ix, Verb::Complete, failure, ground);
            }
            (_, ChildEnd::Success { .. }) => Verb::Succeed,
            (_, ChildEnd::Failed(_)) => Verb::Fail,
            (_, ChildEnd::Cancelled(_)) => Verb::Complete,
        };
        self.stop_confirmed(ix, cause, verb)
    }

    /// The child job was lost: the same one is made again, or the step ends where that was called off.
    pub(super) fn child_missing(&mut self, ix: StepIx, child: JobId) -> Result<(), Rejection> {
        let delegated = self.awaits(ix, child)?;
        if let Some(cause) = delegated.called_off {
            return self.stop_confirmed(ix, cause, Verb::Complete);
        }
        let Work::Child(body) = &self.def(ix).work else { return Err(Rejection::NotItsChild) };
        match self.conceive(ix, body) {
            Ok(conceived) => {
                self.bear(child, ix, conceived);
                self.put(ix, State::Delegated(Delegated { held: false, ..delegated }));
                Ok(())
            }
            Err(failure) => self.not_begun(ix, Verb::Enqueue, failure),
        }
    }

    /// Nobody wants the child job of this step any more.
    pub(super) fn call_child_off(&mut self, ix: StepIx, force: bool) {
        if let Some(child) = self.step(ix).state.child() {
            let by = format!("job {}", self.job.id);
            self.children.push(ChildOrder::CallOff { child, by, force });
        }
    }

    fn awaits(&self, ix: StepIx, child: JobId) -> Result<Delegated, Rejection> {
        self.known(ix)?;
        match self.step(ix).state {
            State::Delegated(delegated) if delegated.to == Delegate::Child(child) => Ok(delegated),
            _ => Err(Rejection::NotItsChild),
        }
    }
}

/// The child's failure, as its parent's step tells it.
fn of_child(child: JobId, failure: &Failure) -> Failure {
    Failure::new(failure.kind, format!("Child job {child}: {}", failure.message))
}

impl Job {
    /// What the job that began this one is to hear: how this one ended, or whether it waits for a person.
    pub fn word_for_parent(&self) -> Option<(JobId, Event)> {
        let parent = self.parent?;
        let (step, child, strays) = (parent.step, self.id, self.header.strays);
        let end = match self.header.state {
            JobState::Success => self.gathered(),
            JobState::Failed => ChildEnd::Failed(self.failure()),
            JobState::Cancelled => match self.failure() {
                // Its own timeout is nobody's wish.
                failure if failure.kind == FailureKind::JobTimeout => ChildEnd::Failed(failure),
                failure => ChildEnd::Cancelled(failure),
            },
            JobState::Held | JobState::Pending | JobState::Running | JobState::Recovering | JobState::Cancelling => {
                let held = self.header.state == JobState::Held;
                return Some((parent.job, Event::ChildHeld { step, child, held }));
            }
        };
        Some((parent.job, Event::ChildEnded { step, child, end, strays }))
    }

    fn failure(&self) -> Failure {
        let unnamed = || Failure::new(FailureKind::Internal, "the job ended without a reason");
        self.header.error.as_ref().map_or_else(unnamed, |error| error.failure.clone())
    }

    /// What the steps of the file wrote, by their names.
    fn gathered(&self) -> ChildEnd {
        let mut output = Map::new();
        let mut bytes = 0;
        for (def, step) in self.definition.steps().iter().zip(&self.steps).filter(|(_, step)| !step.output.is_null()) {
            bytes += step.output.to_string().len();
            output.insert(def.name.to_string(), step.output.clone());
        }
        if bytes > OUTPUTS_BYTES_MAX {
            let message = format!("its outputs hold more than {OUTPUTS_BYTES_MAX} bytes together");
            return ChildEnd::Failed(Failure::new(FailureKind::BadOutput, message));
        }
        ChildEnd::Success { output: Value::Object(output) }
    }

    /// The job that does what this step is to do, or did last.
    pub fn child_of(&self, ix: StepIx) -> Option<JobId> {
        let (def, step) = (self.def(ix), self.step(ix));
        let begun = matches!(def.work, Work::Child(_)) && step.attempts > 0;
        begun.then(|| self.id.child(ix, step.attempts))
    }
}
