//! Templates and conditions, seen from the engine: someone else evaluates them, over what the engine shows.

use std::sync::Arc;

use serde_json::Value;

use crate::definition::{Items, RunBody, StepDef};
use crate::failure::Failure;
use crate::ids::{JobId, StepIx};
use crate::job::JobState;
use crate::notice::NoticeKind;
use crate::state::StateName;

/// Evaluates text of the task file. Implementations are deterministic and bounded in time and memory.
pub trait Evaluator {
    /// Whether an `if:` holds.
    fn holds(&self, expression: &str, step: &StepDef, scope: &Scope<'_>) -> Result<bool, String>;

    /// The step's program with its templates filled in.
    fn render(&self, body: &RunBody, step: &StepDef, scope: &Scope<'_>) -> Result<RunBody, String>;

    /// What another job is given, with the templates in its texts filled in; `uses` are the steps that they read.
    fn fill(&self, with: &Value, uses: &[StepIx], scope: &Scope<'_>) -> Result<Value, String>;

    /// What a fan-out goes over.
    fn items(&self, items: &Items, step: &StepDef, scope: &Scope<'_>) -> Result<Vec<Value>, String>;
}

/// What expressions may see.
pub struct Scope<'a> {
    pub job: JobId,
    pub task: &'a str,
    pub input: &'a Value,
    /// Every need is satisfied.
    pub success: bool,
    /// A step that this one waits for, near or far, failed.
    pub failure: bool,
    /// The job was asked to cancel.
    pub cancelled: bool,
    /// The steps that the text reads.
    pub steps: &'a dyn Fn(StepIx) -> StepView<'a>,
    /// The item that a step of a fan-out is for.
    pub item: Option<&'a Value>,
    /// How the job ended, for what follows on that.
    pub outcome: Option<Outcome<'a>>,
    /// What is noticed, for what follows on that.
    pub notice: Option<Noticed<'a>>,
}

/// A notice, as `notice` shows it to a hook.
#[derive(Clone, Copy)]
pub struct Noticed<'a> {
    pub kind: NoticeKind,
    pub text: &'a str,
    pub step: Option<&'a str>,
}

/// The end of a job, as `job` shows it to a hook.
#[derive(Clone, Copy)]
pub struct Outcome<'a> {
    pub state: JobState,
    pub error: Option<&'a Failure>,
    /// Whose error it is.
    pub step: Option<&'a str>,
}

/// One earlier step, as `steps.NAME` shows it.
pub struct StepView<'a> {
    pub name: &'a Arc<str>,
    pub state: StateName,
    pub output: &'a Value,
    pub error_code: Option<&'static str>,
}
