//! Concurrency groups, seen from one job: it waits until somebody who sees the others says that there is room.
//!
//! Who has a slot follows from rows: a job that was admitted has one until it is over with all its processes. Nobody counts.

use std::sync::Arc;

use serde_json::Value;

use crate::definition::Definition;
use crate::eval::{Evaluator, Scope, StepView};
use crate::event::{About, Rejection};
use crate::failure::Failure;
use crate::ids::{JobId, StepIx};
use crate::job::JobError;
use crate::state::{End, SkipCause, State};
use crate::table::Verb;

use super::draft::Draft;

/// A longer name would be no name.
pub const GROUP_NAME_MAX: usize = 200;

/// The concurrency group of a job of this task with this input, or in words why it has none that could be told.
pub fn group_of(
    definition: &Definition,
    input: &Value,
    job: JobId,
    evaluator: &dyn Evaluator,
) -> Result<Option<Arc<str>>, String> {
    let Some(concurrency) = &definition.concurrency else { return Ok(None) };
    if !concurrency.templated {
        return Ok(Some(concurrency.group.clone()));
    }
    let no_step = |_: StepIx| -> StepView<'_> { unreachable!("a group reads no steps") };
    let scope = Scope {
        job,
        task: &definition.name,
        input,
        success: true,
        failure: false,
        cancelled: false,
        steps: &no_step,
        item: None,
        outcome: None,
        notice: None,
    };
    let bad = |problem: String| format!("the concurrency group of task `{}`: {problem}", definition.name);
    let filled = evaluator.fill(&Value::String(concurrency.group.to_string()), &[], &scope).map_err(bad)?;
    let name = match filled {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return Err(bad("its name is no text".to_owned())),
    };
    let name = name.trim();
    if name.is_empty() {
        return Err(bad("its name is empty".to_owned()));
    }
    if name.len() > GROUP_NAME_MAX {
        return Err(bad(format!("its name has more than {GROUP_NAME_MAX} bytes")));
    }
    if name.chars().any(char::is_control) {
        return Err(bad("its name has a line break or another control character in it".to_owned()));
    }
    Ok(Some(Arc::from(name)))
}

impl Draft<'_> {
    /// Whether nothing may begin, since the group has had no room for the job yet.
    pub(super) fn awaits_slot(&self) -> bool {
        self.job.group.is_some() && self.header.admitted_at.is_none()
    }

    /// A new job with a group says that it waits, however short.
    pub(super) fn line_up(&mut self) {
        if let Some(group) = self.job.group.clone() {
            self.note(About::Slot, &format!("it waits for room in concurrency group `{group}`"));
        }
    }

    pub(super) fn admitted(&mut self, reason: &str) -> Result<(), Rejection> {
        if !self.awaits_slot() {
            return Err(Rejection::NotInLine);
        }
        self.enter_group(reason);
        Ok(())
    }

    /// What needs nothing may begin, and the job's clock runs.
    fn enter_group(&mut self, reason: &str) {
        let now = self.ctx.now;
        self.header.admitted_at = Some(now);
        self.header.timeout_at = self.job.definition.timeout.map(|limit| now + limit);
        self.header.expect_at = self.job.definition.expect.map(|limit| now + limit);
        self.note(About::Slot, reason);
        for ix in (0..self.count()).map(StepIx::of) {
            let step = self.step(ix);
            if step.state == State::Pending && step.unmet == 0 {
                self.ready.push_back(ix);
            }
        }
    }

    /// Something of the job runs, though it was not admitted: commits were lost. Then it has a slot, whoever has one too.
    pub(super) fn enter_group_late(&mut self) {
        if self.awaits_slot() {
            self.enter_group("a worker has started it already: commits were lost");
        }
    }

    /// It fails before anything of it began.
    pub(super) fn turned_away(&mut self, failure: &Failure) -> Result<(), Rejection> {
        if !self.awaits_slot() {
            return Err(Rejection::NotInLine);
        }
        self.end_in_line(failure)
    }

    /// The end of a job that never got a slot. Steps are not asked for their conditions: `always()` asks for a job that ran.
    pub(super) fn end_in_line(&mut self, failure: &Failure) -> Result<(), Rejection> {
        self.header.error.get_or_insert(JobError { failure: failure.clone(), step: None });
        let pending = |ix: &StepIx| self.step(*ix).state == State::Pending;
        let (first, rest): (Vec<StepIx>, Vec<StepIx>) =
            (0..self.count()).map(StepIx::of).filter(pending).partition(|ix| self.step(*ix).unmet == 0);
        for ix in rest {
            let end = End::Skipped(SkipCause::Failure);
            self.end(ix, Verb::Skip, end, None, "the job never began")?;
        }
        for ix in first {
            self.end(ix, Verb::Fail, End::Failed, Some(failure.clone()), &failure.message)?;
        }
        Ok(())
    }
}
