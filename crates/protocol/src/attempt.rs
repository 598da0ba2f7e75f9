//! One attempt as the wire and the attempt folder know it: what to execute, and how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

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
    /// What is executed after a cancel or the step's timeout has ended it. A worker that does not know of it leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupPlan>,
    /// The names of what it is given in memory right before `go`. It does not start without all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Which files the step leaves for others; none: nothing is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<ArtifactRule>,
    /// What earlier steps left, and is to lie in the step's folder before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fetch: Vec<Fetch>,
}

/// Which files below the step's folder are kept when it has ended, and how much that may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRule {
    /// Globs.
    pub paths: Vec<String>,
    #[serde(default)]
    pub when: KeepWhen,
    /// A glob that means no file is nothing to speak of.
    #[serde(default)]
    pub optional: bool,
    pub bytes_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepWhen {
    /// The step ended well.
    #[default]
    Success,
    /// However it ended, if it began at all.
    Always,
}

/// The artifacts of one attempt of an earlier step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// Whose they are, for people.
    pub step: String,
    pub set: ArtifactSet,
    /// A folder below the step's own; none: that itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Files that are stored under one name: the hash of their list, as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactSet {
    pub id: String,
    pub files: u32,
    pub bytes: u64,
}

/// What became of the files that an attempt was to leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Artifacts {
    /// A server has them.
    Stored(ArtifactSet),
    /// They were not stored, and why.
    Failed(String),
}

impl AttemptSpec {
    /// Where the step's process starts, and where its artifacts are; `folder` is the attempt's.
    pub fn working_folder(&self, folder: &std::path::Path) -> std::path::PathBuf {
        folder.join(crate::folder::WORK_FOLDER).join(self.workdir.as_deref().unwrap_or_default())
    }
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

/// How long a runner waits for the output of a step that was stopped, or of its cleanup, after its process has ended. The
/// server's patience beyond grace and cleanup has room for both.
pub const STOP_DRAIN_MAX: Duration = Duration::from_secs(3);

/// A program that puts things in order after its step was stopped: the same folder and environment, and its own time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanupPlan {
    pub program: Program,
    /// KILL to everything of it after this.
    pub budget_ms: u64,
}

/// How hard to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopMode {
    Graceful,
    Kill,
}

/// Why a runner was told to stop its child; it comes back in the [`End`]. After the first two the cleanup has its turn, unless
/// the order was to kill.
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
    /// What became of the cleanup, if it had its turn. It changes nothing of the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupEnd>,
    /// What became of the files that it was to leave. No exit record has it: the worker adds it when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Artifacts>,
}

/// How a cleanup ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanupEnd {
    pub result: EndResult,
    /// Set when the runner killed it, whatever it had returned otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CleanupCut>,
    pub duration_ms: u64,
}

/// Why a cleanup did not come to its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanupCut {
    /// It took longer than it may.
    Budget,
    /// An order to kill came: by force, or because the step has a successor.
    Killed,
    LeaseExpired,
    #[serde(other)]
    Other,
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
