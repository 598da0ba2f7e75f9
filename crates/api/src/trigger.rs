//! What starts jobs by itself: by time, or by a call to `/hooks/{name}`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Trigger {
    /// `TASK:cron:NUMBER` or `TASK:webhook:NAME`.
    pub id: String,
    pub task: String,
    pub kind: TriggerKind,
    /// The expression, and the zone that it is meant in.
    #[serde(default)]
    pub cron: Option<String>,
    #[serde(default)]
    pub timezone: Option<String>,
    /// What happens to times that passed while no server was there: `skip` or `once`.
    #[serde(default)]
    pub missed: Option<String>,
    /// A run begins up to so much later than its time.
    #[serde(default)]
    pub jitter_ms: Option<u64>,
    /// The path that is called.
    #[serde(default)]
    pub path: Option<String>,
    /// The name of the secret that signs the calls.
    #[serde(default)]
    pub secret: Option<String>,
    pub paused: bool,
    #[serde(default)]
    pub paused_at: Option<Timestamp>,
    #[serde(default)]
    pub paused_by: Option<String>,
    /// The next times, the first one first; none while it is paused.
    #[serde(default)]
    pub next: Vec<Timestamp>,
    #[serde(default)]
    pub last_at: Option<Timestamp>,
    /// The job that it made then.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub last_job: Option<Uuid>,
    /// Why its last time made no job.
    #[serde(default)]
    pub last_error: Option<String>,
    /// What is wrong with its task: while it is not there, or has errors and no good version is known, the trigger makes no job.
    #[serde(default)]
    pub task_problem: Option<String>,
    /// Times that passed without a job of their own.
    #[serde(default)]
    pub missed_times: u64,
    /// The last notice that times passed without a job, in words, and when it was given.
    #[serde(default)]
    pub notice: Option<String>,
    #[serde(default)]
    pub notice_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerKind {
    Cron,
    Webhook,
}

impl TriggerKind {
    pub fn word(self) -> &'static str {
        match self {
            TriggerKind::Cron => "cron",
            TriggerKind::Webhook => "webhook",
        }
    }
}

/// What a call to a webhook came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HookAnswer {
    #[schema(value_type = String, format = "uuid")]
    pub job: Uuid,
    /// The same call came before: this is the job from then.
    #[serde(default)]
    pub repeated: bool,
}
