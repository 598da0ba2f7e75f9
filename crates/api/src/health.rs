//! Is the server alive, and can it work?

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::retention::Retention;
use crate::time::Timestamp;
use crate::worker::Dispatch;

/// The process answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    pub version: String,
}

/// It can commit, and its loops run. Answered with status 503 while it is not ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    pub ready: bool,
    /// What is missing, in words.
    #[serde(default)]
    pub problems: Vec<String>,
    /// The sweeper's last run.
    #[serde(default)]
    pub sweep: Option<Sweep>,
    /// The last time that what is old was deleted, by this server.
    #[serde(default)]
    pub retention: Option<Retention>,
    /// Null if it cannot be read.
    #[serde(default)]
    pub dispatch: Option<Dispatch>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sweep {
    pub at: Timestamp,
    pub duration_ms: u64,
}
