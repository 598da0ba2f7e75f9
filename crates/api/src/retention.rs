//! What is old goes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// Asks for what is old to go now. The body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneRequest {
    /// Only say what would go.
    #[serde(default)]
    pub dry_run: bool,
    /// Jobs that ended longer ago than this duration, and their logs, whatever the server's config says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<String>,
}

/// A run of retention, or what one would come to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pruned {
    /// Nothing went; this is what would.
    #[serde(default)]
    pub dry_run: bool,
    /// Null before the first run.
    pub started_at: Option<Timestamp>,
    /// Null while it goes on.
    pub ended_at: Option<Timestamp>,
    pub tally: PruneTally,
}

/// What went, or would go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PruneTally {
    pub jobs: u64,
    pub attempts: u64,
    pub events: u64,
    /// Logs that went while their jobs stay.
    pub logs: u64,
    pub log_lines: u64,
    /// As they are stored; not known for logs whose jobs stay before they go.
    pub log_bytes: u64,
    pub definitions: u64,
    /// Webhooks and mails that belong to no job: what was said of schedules that did not run.
    #[serde(default)]
    pub words: u64,
    /// Events that could not be handled and were set aside, and belong to no job.
    #[serde(default)]
    pub quarantined: u64,
    pub workers: u64,
    pub kept: PruneKept,
}

/// Jobs that are old enough, and stay all the same, by the reason that the first of their family has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PruneKept {
    /// Not over, or needed by one that is not.
    pub needed: u64,
    /// An attempt was given up without proof that nothing of it runs.
    pub in_doubt: u64,
    /// A log, a webhook or a worker's report is still under way.
    pub under_way: u64,
}

/// Retention's last run, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retention {
    /// When it ended.
    pub at: Timestamp,
    pub jobs: u64,
    pub log_bytes: u64,
    pub workers: u64,
}
