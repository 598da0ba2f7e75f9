//! The fleet.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub name: String,
    pub status: WorkerStatus,
    /// Has a link to a server now.
    pub connected: bool,
    pub kind: WorkerKind,
    pub tags: Vec<String>,
    pub slots: u32,
    pub busy: u32,
    /// New with every start of the worker process.
    #[schema(value_type = Option<String>, format = "uuid")]
    pub session_id: Option<Uuid>,
    pub boot_id: Option<String>,
    pub started_at: Option<Timestamp>,
    pub last_seen_at: Option<Timestamp>,
    pub version: Option<String>,
    pub platform: Option<String>,
    pub hostname: Option<String>,
    pub pid: Option<u32>,
    /// Who wants it to get no new work: `operator`, `worker` (about to stop), `caretaker`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draining_by: Vec<String>,
}

/// Whether a worker is to get new work. The body may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// `false` takes an earlier drain back.
    #[serde(default = "yes")]
    pub draining: bool,
}

impl Default for DrainRequest {
    fn default() -> Self {
        DrainRequest { draining: true }
    }
}

fn yes() -> bool {
    true
}

/// What the removal of a worker came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removal {
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    pub name: String,
    pub hostname: Option<String>,
    /// Offers that were taken back; their steps are queued again.
    pub offers: u32,
    /// Attempts that may still run there until the worker says otherwise.
    pub attempts: u32,
}

/// Whether anything new is handed out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dispatch {
    pub paused: bool,
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Who paused it.
    #[serde(default)]
    pub by: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    Active,
    Inactive,
    Draining,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerKind {
    Static,
    Ephemeral,
}

impl WorkerStatus {
    pub fn word(self) -> &'static str {
        match self {
            WorkerStatus::Active => "active",
            WorkerStatus::Inactive => "inactive",
            WorkerStatus::Draining => "draining",
        }
    }
}
