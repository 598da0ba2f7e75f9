//! What follows on a job's end: other jobs, and words to somebody outside. It is decided with the end itself, so that it is
//! decided once, and is never forgotten.

use std::sync::Arc;

use crate::definition::{ChildBody, Hook, HookWork, Occasion};
use crate::eval::{Outcome, Scope};
use crate::event::{About, Birth, HookOrder};
use crate::failure::FailureKind;
use crate::ids::StepIx;
use crate::job::JobState;

use super::draft::Draft;

impl Draft<'_> {
    /// The job is over. Nothing follows on what itself follows on another job's end, or a hook that fails would be a hook
    /// without end.
    pub(super) fn fire_hooks(&mut self) {
        if self.job.hook_of.is_some() {
            return;
        }
        let definition = &self.job.definition;
        for (number, hook) in definition.hooks.iter().enumerate() {
            if !self.is_occasion(hook.on) {
                continue;
            }
            let id = self.job.id.hook(number);
            let reason = match &hook.work {
                HookWork::Webhook(webhook) => {
                    self.hooks.push(HookOrder::Tell { id, on: hook.on, webhook: webhook.clone() });
                    format!("{} is told", webhook.url)
                }
                HookWork::Task(body) => match self.conceive_hook(hook, body) {
                    Ok((task, input)) => {
                        let (parent, hook_of) = (None, Some(self.job.id));
                        let (input, submitted_by) = (Arc::new(input), self.job.submitted_by.clone());
                        self.hooks.push(HookOrder::Begin(Birth { id, parent, hook_of, task, input, submitted_by }));
                        format!("job {id} of task `{}` follows", body.task)
                    }
                    Err(problem) => format!("no job of task `{}` follows: {problem}", body.task),
                },
            };
            self.note(About::Hook, &format!("{}: {reason}", hook.on.word()));
        }
    }

    fn is_occasion(&self, on: Occasion) -> bool {
        let timed_out = || self.header.error.as_ref().is_some_and(|e| e.failure.kind == FailureKind::JobTimeout);
        match (on, self.header.state) {
            (Occasion::Success, JobState::Success) | (Occasion::Error, JobState::Failed) => true,
            (Occasion::Recovered, JobState::Success) => self.header.recovered,
            (Occasion::Error, JobState::Cancelled) => timed_out(),
            (Occasion::Cancel, JobState::Cancelled) => !timed_out(),
            _ => false,
        }
    }

    /// What the job that follows is made of, or why there is none.
    fn conceive_hook(
        &self,
        hook: &Hook,
        body: &ChildBody,
    ) -> Result<(Arc<crate::definition::ChildTask>, serde_json::Value), String> {
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
            },
        )?;
        let input = task.inputs.bind(given)?;
        Ok((task, input))
    }
}
