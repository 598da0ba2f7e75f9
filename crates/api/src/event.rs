//! Live changes, as the event streams send them. Every decision has one, with its reason.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::time::Timestamp;

/// The SSE event name of the message after which nothing comes: the client need not connect again.
pub const END: &str = "end";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Grows; also the `id` of the stream's message.
    pub id: u64,
    pub at: Timestamp,
    /// Null where the event is about no job.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "uuid")]
    pub job: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The number of the step's current attempt, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The worker's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    pub kind: EventKind,
    /// What happened, in a word: of a step (`start`, `succeed`, …) or an offer (`made`, `refused`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// State words, where a state changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The job's state changed.
    Job,
    /// A step's state changed.
    Step,
    /// An offer to a worker came or went; the step's state is the same.
    Offer,
    /// News of an attempt that change no state: `unconfirmed`, `confirmed`, `late_outcome`, `stale`.
    Attempt,
    /// Someone said yes to a step that waits for more of them; the step's state is the same.
    Approved,
    /// Someone asked for the job's end.
    CancelAsked,
    /// Another job goes on where this one ended.
    Continued,
    /// A worker came, went or changed.
    Worker,
    /// A kind that is newer than this reader.
    #[serde(other)]
    Unknown,
}
