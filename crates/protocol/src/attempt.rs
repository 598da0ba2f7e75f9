//! One attempt as the wire and the attempt folder know it: what to execute, and how it ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The version of [`AttemptSpec`] that this build writes.
pub const SPEC_FORMAT: u32 = 1;

/// Names an attempt in every message about work. Both halves must match the server's current attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ticket {
    pub attempt: Uuid,
    pub fence: u64,
}

/// All that a runner needs to execute one attempt. Travels in the offer, lies in the folder as `spec.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptSpec {
    pub format: u32,
    pub ticket: Ticket,
    pub job: Uuid,
    pub task: String,
    pub step: String,
    /// The attempt's number within its step, from 1.
    pub number: u32,
    pub program: Program,
    /// The task's and the step's `env`, and `BOWLINE_INPUT_*`; the runner adds the rest.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Relative to the attempt's work folder, or absolute.
    #[serde(default)]
    pub workdir: Option<String>,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    pub effects: Effects,
    #[serde(default)]
    pub on_disconnect: OnDisconnect,
    /// How long an answer of the server holds: for so long after the question the attempt certainly is the step's
    /// current one. With `on_disconnect: stop` the step ends with it.
    #[serde(default)]
    pub lease_ms: Option<u64>,
    #[serde(default)]
    pub stop: StopPlan,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Program {
    /// `argv` of the shell, then the script in a file as its last argument.
    Script { shell: Vec<String>, text: String },
    /// Executed as it is, without a shell.
    Command { argv: Vec<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effects {
    None,
    Idempotent,
    Writes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    #[default]
    Keep,
    Stop,
}

/// How a step is asked to end: `signal` to its group, `grace`, then KILL to the group and all strays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopPlan {
    /// A signal's number on Linux.
    pub signal: i32,
    pub grace_ms: u64,
}

impl Default for StopPlan {
    fn default() -> Self {
        StopPlan { signal: 15, grace_ms: 10_000 }
    }
}

/// How hard to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    Graceful,
    Kill,
}

/// Why a runner was told to stop its child; it comes back in the [`End`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Cancelled,
    Timeout,
    LeaseExpired,
    Superseded,
    WorkerStopped,
}

/// How an attempt ended: the truth that the exit record holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    pub result: EndResult,
    /// Set when the runner ended the child on an order or a deadline, whatever the child then returned.
    #[serde(default)]
    pub stopped: Option<StopReason>,
    /// The number of the attempt's last log line; 0 if there is none.
    pub log_last_seq: u64,
    /// What the step wrote to `$BOWLINE_OUTPUT`, or why it could not be read.
    #[serde(default)]
    pub output: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    pub output_error: Option<String>,
    /// Milliseconds between exec and the child's end, on the worker's monotonic clock.
    pub duration_ms: u64,
    #[serde(default)]
    pub cpu_ms: u64,
    #[serde(default)]
    pub memory_bytes_max: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndResult {
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
        oom: bool,
    },
    /// The program could not be started at all.
    SpawnFailed {
        message: String,
    },
}
