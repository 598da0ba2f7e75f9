//! Jobs with their steps and attempts, and the requests that make and end them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AttemptState, JobState, StepState};
use crate::time::Timestamp;

/// Asks for a job: of a task that the server knows, or of the text of a task file. Exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// A task's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The text of a task file, YAML or JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    /// What diagnostics call `spec`, usually its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// By the names that the task declares. A string is converted where another type is declared.
    #[serde(default)]
    pub input: Map<String, Value>,
    /// Instead of the task's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Wanted of every worker, besides what each step wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Asks a job to end. The body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Kill at once instead of asking the steps to end.
    #[serde(default)]
    pub force: bool,
}

/// Says yes to a step that waits for a person. The body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    /// Kept in the job's history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Says no to a step that waits for a person: it is cancelled. The body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectRequest {
    /// Kept in the job's history, and part of the step's error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Settles a step by hand. While its job is open the step must be `recovering`; of a job that is over, a new job goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    pub how: ResolveHow,
    /// The attempt that was looked at: the step's latest; for `accept_late` the newest one with a late outcome. Left out
    /// only where the step never had one. If another one is there by now, nothing is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub attempt: Option<Uuid>,
    /// That attempt's `late_outcome` as it was seen; null if it had none. If there is another, nothing is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_outcome: Option<Value>,
    /// Says that nothing of the attempt runs any more. `rerun` needs this unless there is proof of it.
    #[serde(default)]
    pub confirm_dead: bool,
    /// For `succeeded`: the step's outputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub output: Map<String, Value>,
    /// For `failed`: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolveHow {
    Succeeded,
    Failed,
    /// Run it once more.
    Rerun,
    /// Take the end that came after the attempt was given up.
    AcceptLate,
}

/// Asks for a job like one that is over. The body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// Take over what ended well, with its outputs.
    #[serde(default)]
    pub from_failed: bool,
    /// Says that nothing of the old job runs any more, where there is no proof of it.
    #[serde(default)]
    pub confirm_dead: bool,
    /// Inputs that are to be others than the old job's, by name; checked as for a new job. Not with `from_failed`: what
    /// ended well ended with the old ones.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub input: Map<String, Value>,
}

/// A job with all its steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub task: String,
    pub state: JobState,
    #[serde(default)]
    pub input: Value,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub error: Option<JobError>,
    #[serde(default)]
    pub priority: i32,
    #[serde(default)]
    pub submitted_by: String,
    /// The newest event that this answer takes into account: `after=` it come the changes since. 0 if unknown.
    #[serde(default)]
    pub last_event: u64,
    /// The job that began this one, by a step with `task`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub parent: Option<Uuid>,
    /// The job on whose end this one follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub hook_of: Option<Uuid>,
    /// Its concurrency group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<JobConcurrency>,
    /// What followed on its end, and on notices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// How it goes on from `continues`: `retry`, `retry_changed` (with other inputs), `from_failed`, or how a step of that
    /// was resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues_how: Option<String>,
    /// The jobs that go on from this one, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub continued_by: Vec<Uuid>,
    /// Jobs among those named here that retention has deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub deleted: Vec<Uuid>,
    /// What takes, or took, longer than it should, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// The job that this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub continues: Option<Uuid>,
    /// The job that goes on where this one ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub resolved_by: Option<Uuid>,
    /// In the task's order, each with its items after it.
    pub steps: Vec<Step>,
}

/// A job in a list, without its input and steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobSummary {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub task: String,
    pub state: JobState,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub error: Option<JobError>,
    #[serde(default)]
    pub submitted_by: String,
    /// The job that began this one, by a step with `task`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub parent: Option<Uuid>,
    /// The job on whose end this one follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub hook_of: Option<Uuid>,
    /// The job that this one goes on from, and how: `retry`, `retry_changed` (with other inputs), `from_failed`, or how a
    /// step of that was resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub continues: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues_how: Option<String>,
    /// The jobs that go on from this one, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub continued_by: Vec<Uuid>,
    /// Its concurrency group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// It waits for room in that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_line: bool,
    /// What `bowline exec` ran, as one would type it, cut if it is long. Null for other jobs.
    #[serde(default)]
    pub command: Option<String>,
}

/// How a job goes on for another (`continues_how`), as people say it; none for a word that is newer than this build.
pub fn continues_how_in_words(how: &str) -> Option<&'static str> {
    match how {
        "retry" => Some("retry"),
        "retry_changed" => Some("retry with other inputs"),
        "from_failed" => Some("retry of what failed"),
        "succeeded" => Some("a step was resolved as succeeded"),
        "failed" => Some("a step was resolved as failed"),
        "rerun" => Some("a step is run again"),
        "accept_late" => Some("a late end was accepted"),
        _ => None,
    }
}

/// The group of jobs of which only so many run at once, and whether this one waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobConcurrency {
    pub group: String,
    pub limit: u32,
    /// `queue`, `reject` or `cancel_oldest`.
    pub when_full: String,
    /// It waits for room; `why` says for whom.
    pub in_line: bool,
    /// When there was room for it.
    pub admitted_at: Option<Timestamp>,
}

/// Something that followed on a job's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hook {
    /// `on_success`, `on_error`, `on_cancel`, `on_recovered` or `on_notice`.
    pub on: String,
    /// The job, or the delivery. There is no such job where none was begun.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub kind: HookKind,
    /// The task's name, or the address.
    pub target: String,
    /// The job's state, or `not_begun` where it could not be made; or `waiting`, `delivered` or `dead`.
    pub state: String,
    /// Why the last try of a delivery was none, or why no job was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    Task,
    Webhook,
    Mail,
}

/// The state of a hook whose job could not be made.
pub const NOT_BEGUN: &str = "not_begun";

/// Something took longer than expected. It changes nothing about the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    /// `job_late`, `step_late` or `queue_old`.
    pub kind: String,
    pub at: Timestamp,
    /// The step that it is about, if it is about one.
    pub step: Option<String>,
    /// In words.
    pub text: String,
}

/// The first failure that counts, and whose it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobError {
    pub code: String,
    pub message: String,
    pub step: Option<String>,
}

/// A node of the job's graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    pub name: String,
    #[serde(default)]
    pub kind: StepKind,
    /// Who does its items, if it is a fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<StepKind>,
    /// What it is for, if it is one of the many that a fan-out became: `each[3]` is one of those of `each`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
    /// The job that does it, or did last, if it has `task`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub child: Option<Uuid>,
    pub state: StepState,
    /// The number of the latest attempt; 0 if there was none.
    pub attempt: u32,
    /// The job before this one, if the step stands here as it ended there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub taken_over_from: Option<Uuid>,
    /// Who settled it by hand when this job was made to go on for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_by: Option<String>,
    /// How many offers in a row stayed unanswered.
    pub dispatch_attempts: u32,
    pub error: Option<StepError>,
    /// What it wrote to `$BOWLINE_OUTPUT`.
    #[serde(default)]
    pub output: Value,
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    /// While it waits for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// While it waits for a time to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Null once the step is final.
    pub deadline: Option<Deadline>,
    /// The steps that it waits for.
    #[serde(default)]
    pub needs: Vec<String>,
    #[serde(default)]
    pub updated_at: Option<Timestamp>,
    /// When its first attempt, the job that does it, or its items began; null where none did.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// When its end was put on record, if it had begun.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
}

/// Who does what a step is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A worker; only such a step has attempts and logs.
    #[default]
    Run,
    /// A person.
    Approve,
    /// A job of its own.
    Task,
    /// The steps that it became, one for each item.
    FanOut,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepError {
    pub code: String,
    pub message: String,
}

/// One granted hand-over of a step to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub number: u32,
    pub fence: u64,
    /// The worker's name.
    pub worker: String,
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub worker_id: Option<Uuid>,
    pub state: AttemptState,
    /// Known to be over with all its processes; a lost attempt may not be.
    pub confirmed: bool,
    pub started_at: Timestamp,
    /// When its end was put on record. A step that ended while no server was there has ended before that.
    pub ended_at: Option<Timestamp>,
    /// How long it ran, as its worker's machine measured it; null until that is known, and of one that was lost.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub error: Option<StepError>,
    /// What came in after the attempt was given up: evidence, nothing more.
    #[serde(default)]
    pub late_outcome: Option<Value>,
    #[serde(default)]
    pub usage: Option<Usage>,
    /// What became of the step's cleanup; null if it had no turn.
    #[serde(default)]
    pub cleanup: Option<Cleanup>,
}

/// A cleanup never changes how its step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cleanup {
    pub state: CleanupState,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// What is wrong with it; null where nothing is.
    pub problem: Option<String>,
    pub duration_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanupState {
    Success,
    Failed,
    /// It took longer than it may, and was killed.
    TimedOut,
    /// By force, or with the step's lease.
    Killed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    pub cpu_ms: u64,
    pub memory_bytes_max: u64,
}

/// Whose yes a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// Why it waits for a person.
    #[serde(default)]
    pub reason: HoldReason,
    pub since: Timestamp,
    /// Cancelled by then; null: never.
    pub expires_at: Option<Timestamp>,
    /// How many different people must say yes.
    pub wanted: u32,
    /// Those who did.
    #[serde(default)]
    pub approvals: Vec<Approval>,
    /// Whether who submitted the job may be one of them.
    pub allow_submitter: bool,
    /// Whose rule it is; null for an `approve` step.
    pub environment: Option<String>,
    /// What an `approve` step asks.
    pub message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// It asks for that itself, or its environment does.
    #[default]
    Approval,
    /// The database was restored, and it may have run in the time that is lost.
    Restored,
    /// One that this build does not know.
    #[serde(other)]
    Unknown,
}

/// Until when a step waits, and what for. Its deadline is never more than an hour ahead; this time may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    pub until: Timestamp,
    pub reason: WaitReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// The delay before its next execution.
    Retry,
    /// Its environment asks for a wait.
    Environment,
    /// One that this build does not know.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    pub by: String,
    pub at: Timestamp,
    #[serde(default)]
    pub comment: String,
}

/// When a step is looked at next without any outside event, what happens then, and who could move it before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deadline {
    pub at: Timestamp,
    pub action: String,
    pub owner: String,
}

impl Job {
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// The steps that a fan-out became, in their order.
    pub fn items<'a>(&'a self, of: &'a Step) -> impl Iterator<Item = &'a Step> {
        let is_item = |step: &&Step| step.item.is_some();
        self.steps
            .iter()
            .filter(is_item)
            .filter(|step| step.name.rsplit_once('[').is_some_and(|(name, _)| name == of.name))
    }
}
