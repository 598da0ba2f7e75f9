//! One granted hand-over, as history keeps it, and what a worker says of its end.

use serde_json::Value;

use crate::failure::Failure;
use crate::ids::StepIx;
use crate::state::Live;
use crate::time::Time;

/// An attempt's row. Only granted attempts have one.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub step: StepIx,
    pub live: Live,
    pub state: AttemptState,
    /// Known to be over with all its processes; a lost attempt may not be.
    pub confirmed: bool,
    pub ended_at: Option<Time>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub error: Option<Failure>,
    pub usage: Usage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptState {
    Running,
    Recovering,
    Ended,
    Lost,
    Superseded,
}

impl AttemptState {
    pub const ALL: [AttemptState; 5] = [
        AttemptState::Running,
        AttemptState::Recovering,
        AttemptState::Ended,
        AttemptState::Lost,
        AttemptState::Superseded,
    ];

    pub fn word(self) -> &'static str {
        match self {
            AttemptState::Running => "running",
            AttemptState::Recovering => "recovering",
            AttemptState::Ended => "ended",
            AttemptState::Lost => "lost",
            AttemptState::Superseded => "superseded",
        }
    }

    pub fn from_word(word: &str) -> Option<AttemptState> {
        AttemptState::ALL.into_iter().find(|state| state.word() == word)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub cpu_ms: u64,
    pub memory_bytes_max: u64,
}

/// The end of an attempt, in the words of its runner.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub outcome: Outcome,
    /// The runner ended the child itself.
    pub stopped: Option<Stopped>,
    pub output: Value,
    pub output_error: Option<String>,
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Exited(i32),
    Signaled { signal: i32, oom: bool },
    SpawnFailed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    Cancelled,
    Timeout,
    LeaseExpired,
    /// The worker was told to end its steps, or a successor exists.
    Worker,
}

/// A loss that is certain, with its evidence: nothing of the attempt runs any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// It never started: `void` was created before `intent`.
    Void,
    RunnerLost,
    ResultNotAvailable,
    MachineRebooted,
    /// The worker scanned its folder and does not have it.
    NotReported,
    LeaseExpired,
}

impl Attempt {
    pub fn started(step: StepIx, live: Live) -> Attempt {
        Attempt {
            step,
            live,
            state: AttemptState::Running,
            confirmed: false,
            ended_at: None,
            exit_code: None,
            signal: None,
            error: None,
            usage: Usage::default(),
        }
    }
}
