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
