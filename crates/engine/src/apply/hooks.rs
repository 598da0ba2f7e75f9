//! What follows on a job's end, or on a notice: other jobs, and words to somebody outside. It is decided with the end or the
//! notice itself, so that it is decided once, and is never forgotten.

use std::sync::Arc;

use planted::Bug;

use crate::definition::{ChildBody, Hook, HookWork, Occasion};
use crate::eval::{Noticed, Outcome, Scope};
use crate::event::{About, Birth, HookOrder};
use crate::failure::FailureKind;
use crate::ids::{JobId, StepIx};
use crate::job::{Header, JobState};
use crate::notice::Notice;

use super::child::Conceived;
use super::draft::Draft;
use super::groups::group_of;

/// Only a planted bug gives a hook a second number: no task has so many.
const OF_THE_OTHER: usize = 256;

/// Whether a job that is over like this is one that a hook follows on.
pub fn is_occasion(header: &Header, on: Occasion) -> bool {
    let timed_out = || header.error.as_ref().is_some_and(|e| e.failure.kind == FailureKind::JobTimeout);
    match (on, header.state) {
        (Occasion::Success, JobState::Success) | (Occasion::Error, JobState::Failed) => true,
        (Occasion::Recovered, JobState::Success) => header.recovered || planted::is(Bug::RecoveredHookAlways),
        (Occasion::Error, JobState::Cancelled) => timed_out(),
        (Occasion::Cancel, JobState::Cancelled) => !timed_out(),
        _ => false,
    }
}

/// How the line of a job's history begins that says why no job of this task follows.
pub fn no_job_follows(on: Occasion, task: &str) -> String {
    format!("{}: no job of task `{task}` follows: ", on.word())
}

impl Draft<'_> {
    /// The job is over. Nothing follows on what itself follows on another job's end, or a hook that fails would be a hook
    /// without end.
    pub(super) fn fire_hooks(&mut self) {
        if self.job.hook_of.is_some() {
            return;
        }
        let definition = &self.job.definition;
        for (number, hook) in definition.hooks.iter().enumerate() {
            if !is_occasion(&self.header, hook.on) {
                continue;
            }
            self.order_hook(self.job.id.hook(number), hook, None);
            if planted::is(Bug::HooksByEach) && self.ends_now() > 1 {
                self.order_hook(self.job.id.hook(number + OF_THE_OTHER), hook, None);
            }
        }
    }

    /// The same for a notice.
    pub(super) fn carry(&mut self, notice: &Notice) {
        if self.job.hook_of.is_some() {
            return;
        }
        let definition = &self.job.definition;
        for (number, hook) in definition.hooks.iter().enumerate().filter(|(_, hook)| hook.on == Occasion::Notice) {
            let about = notice.step.as_ref().map(|(ix, _)| *ix);
            self.order_hook(self.job.id.notice(notice.kind, about, number), hook, Some(notice));
        }
    }

    fn order_hook(&mut self, id: JobId, hook: &Hook, notice: Option<&Notice>) {
        let reason = match &hook.work {
            HookWork::Tell(outside) => {
                let (on, to, notice) = (hook.on, outside.clone(), notice.cloned());
                self.hooks.push(HookOrder::Tell { id, on, to, notice });
                format!("{} is told", outside.address())
            }
            HookWork::Task(body) => match self.conceive_hook(hook, body, notice) {
                Ok(Conceived { task, input, group }) => {
                    let (parent, hook_of) = (None, Some(self.job.id));
                    let (input, submitted_by) = (Arc::new(input), self.job.submitted_by.clone());
                    self.hooks.push(HookOrder::Begin(Birth { id, parent, hook_of, task, input, group, submitted_by }));
                    format!("job {id} of task `{}` follows", body.task)
                }
                Err(problem) => {
                    self.note(About::Hook, &format!("{}{problem}", no_job_follows(hook.on, &body.task)));
                    return;
                }
            },
        };
        self.note(About::Hook, &format!("{}: {reason}", hook.on.word()));
    }

    /// What the job that follows is made of, or why there is none.
    fn conceive_hook(&self, hook: &Hook, body: &ChildBody, notice: Option<&Notice>) -> Result<Conceived, String> {
        let task = body.bound.clone().ok_or("there was no such task when the job was submitted")?;
        let view = |other: StepIx| self.view(other);
        let error = self.header.error.as_ref();
        let step = error.and_then(|error| error.step).map(|ix| self.name(ix));
        let state = self.header.state;
        let given = self.ctx.evaluator.fill(
            &body.with,
            &hook.uses,
            &Scope {
                job: self.job.id,
                task: &self.job.definition.name,
                input: &self.job.input,
                success: state == JobState::Success,
                failure: state == JobState::Failed,
                cancelled: state == JobState::Cancelled,
                steps: &view,
                item: None,
                outcome: Some(Outcome { state, error: error.map(|error| &error.failure), step: step.as_deref() }),
                notice: notice.map(|n| Noticed { kind: n.kind, text: &n.text, step: n.step_name() }),
            },
        )?;
        let input = task.inputs.bind(given)?;
        let group = group_of(&task.definition, &input, self.job.id, self.ctx.evaluator)?;
        Ok(Conceived { task, input, group })
    }
}
