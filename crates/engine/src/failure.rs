//! Why something did not succeed: one code and one message per reason.

use std::fmt;

/// The reason of an end that is not success. The code is what programs match on, the message is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.kind.code())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    ExitCode(i32),
    Signal(i32),
    OomKilled,
    SpawnFailed,
    /// It ended well, but what it wrote to `$BOWLINE_OUTPUT` cannot be taken.
    BadOutput,
    /// It ended well, but the files that it was to leave could not be stored.
    Artifacts,
    StepTimeout,
    JobTimeout,
    Expired,
    HoldExpired,
    Rejected,
    Cancelled,
    WorkerLost,
    MachineRebooted,
    WorkerRemoved,
    RunnerLost,
    ResultNotAvailable,
    RunnerStale,
    LeaseExpired,
    Unmatched,
    DispatchExhausted,
    Poison,
    /// A template or condition could not be evaluated.
    Template,
    /// A secret that it is to be given cannot be had.
    Secret,
    /// There is no such task to begin a child job with.
    UnknownTask,
    /// A child job was given what its task does not take.
    InvalidInput,
    /// Its concurrency group had no room for it, and its task does not want to wait.
    GroupFull,
    /// It would wait for a concurrency group that waits for it.
    GroupDeadlock,
    /// A person said so.
    Resolved,
    Internal,
}

impl FailureKind {
    pub fn code(self) -> &'static str {
        match self {
            FailureKind::ExitCode(_) => "exit_code",
            FailureKind::Signal(_) => "signal",
            FailureKind::OomKilled => "oom_killed",
            FailureKind::SpawnFailed => "spawn_failed",
            FailureKind::BadOutput => "bad_output",
            FailureKind::Artifacts => "artifacts",
            FailureKind::StepTimeout => "step_timeout",
            FailureKind::JobTimeout => "job_timeout",
            FailureKind::Expired => "expired",
            FailureKind::HoldExpired => "hold_expired",
            FailureKind::Rejected => "rejected",
            FailureKind::Cancelled => "cancelled",
            FailureKind::WorkerLost => "worker_lost",
            FailureKind::MachineRebooted => "machine_rebooted",
            FailureKind::WorkerRemoved => "worker_removed",
            FailureKind::RunnerLost => "runner_lost",
            FailureKind::ResultNotAvailable => "result_not_available",
            FailureKind::RunnerStale => "runner_stale",
            FailureKind::LeaseExpired => "lease_expired",
            FailureKind::Unmatched => "unmatched",
            FailureKind::DispatchExhausted => "dispatch_exhausted",
            FailureKind::Poison => "poison",
            FailureKind::Template => "template",
            FailureKind::Secret => "secret",
            FailureKind::UnknownTask => "unknown_task",
            FailureKind::InvalidInput => "invalid_input",
            FailureKind::GroupFull => "group_full",
            FailureKind::GroupDeadlock => "group_deadlock",
            FailureKind::Resolved => "resolved",
            FailureKind::Internal => "internal",
        }
    }

    /// The code back into the kind; codes that carry a number take it from `detail`.
    pub fn from_code(code: &str, detail: Option<i32>) -> Option<FailureKind> {
        Some(match code {
            "exit_code" => FailureKind::ExitCode(detail?),
            "signal" => FailureKind::Signal(detail?),
            "oom_killed" => FailureKind::OomKilled,
            "spawn_failed" => FailureKind::SpawnFailed,
            "bad_output" => FailureKind::BadOutput,
            "artifacts" => FailureKind::Artifacts,
            "step_timeout" => FailureKind::StepTimeout,
            "job_timeout" => FailureKind::JobTimeout,
            "expired" => FailureKind::Expired,
            "hold_expired" => FailureKind::HoldExpired,
            "rejected" => FailureKind::Rejected,
            "cancelled" => FailureKind::Cancelled,
            "worker_lost" => FailureKind::WorkerLost,
            "machine_rebooted" => FailureKind::MachineRebooted,
            "worker_removed" => FailureKind::WorkerRemoved,
            "runner_lost" => FailureKind::RunnerLost,
            "result_not_available" => FailureKind::ResultNotAvailable,
            "runner_stale" => FailureKind::RunnerStale,
            "lease_expired" => FailureKind::LeaseExpired,
            "unmatched" => FailureKind::Unmatched,
            "dispatch_exhausted" => FailureKind::DispatchExhausted,
            "poison" => FailureKind::Poison,
            "template" => FailureKind::Template,
            "secret" => FailureKind::Secret,
            "unknown_task" => FailureKind::UnknownTask,
            "invalid_input" => FailureKind::InvalidInput,
            "group_full" => FailureKind::GroupFull,
            "group_deadlock" => FailureKind::GroupDeadlock,
            "resolved" => FailureKind::Resolved,
            "internal" => FailureKind::Internal,
            _ => return None,
        })
    }

    /// The number that a code alone does not carry.
    pub fn detail(self) -> Option<i32> {
        match self {
            FailureKind::ExitCode(n) | FailureKind::Signal(n) => Some(n),
            _ => None,
        }
    }
}
