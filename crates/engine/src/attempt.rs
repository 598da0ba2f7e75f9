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
    /// What became of its cleanup, if that had its turn.
    pub cleanup: Option<Cleanup>,
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
    /// How long it ran, by the clock of its machine; none where nobody said so. When its end is on record is another
    /// question: the word of it may have been on its way for long.
    pub duration_ms: Option<u64>,
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
    /// What became of the files that it was to leave; none if it was to leave none.
    pub artifacts: Option<Artifacts>,
    pub usage: Usage,
    pub cleanup: Option<Cleanup>,
}

/// The end of a cleanup. No verdict depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleanup {
    pub outcome: Outcome,
    /// Why its runner killed it.
    pub cut: Option<CleanupCut>,
    pub duration_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanupCut {
    /// Its time was over.
    Budget,
    /// By force, for a successor, or for a reason that is not known here.
    Killed,
    LeaseExpired,
}

impl Cleanup {
    /// What it came to.
    pub fn state(&self) -> CleanupState {
        match (self.cut, &self.outcome) {
            (_, Outcome::SpawnFailed(_)) => CleanupState::Failed,
            (Some(CleanupCut::Budget), _) => CleanupState::TimedOut,
            (Some(CleanupCut::Killed | CleanupCut::LeaseExpired), _) => CleanupState::Killed,
            (None, Outcome::Exited(0)) => CleanupState::Success,
            (None, Outcome::Exited(_) | Outcome::Signaled { .. }) => CleanupState::Failed,
        }
    }

    /// What is wrong with its end, for people; none if it is a success.
    pub fn problem(&self) -> Option<String> {
        Some(match (self.cut, &self.outcome) {
            (_, Outcome::SpawnFailed(why)) => format!("it could not be started: {why}"),
            (Some(CleanupCut::Budget), _) => "it took longer than it may, and was killed".to_owned(),
            (Some(CleanupCut::Killed), _) => "it was killed: the step was to end at once".to_owned(),
            (Some(CleanupCut::LeaseExpired), _) => "it was killed: the step's lease was over".to_owned(),
            (None, Outcome::Exited(0)) => return None,
            (None, Outcome::Exited(code)) => format!("it exited with code {code}"),
            (None, Outcome::Signaled { oom: true, .. }) => "it was killed: out of memory".to_owned(),
            (None, Outcome::Signaled { signal, oom: false }) => format!("it was ended by signal {signal}"),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanupState {
    Success,
    Failed,
    TimedOut,
    Killed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Artifacts {
    Stored(ArtifactSet),
    /// Why they were not.
    Failed(String),
}

/// Files that are stored under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactSet {
    /// The hash of their list.
    pub id: [u8; 32],
    pub files: u32,
    pub bytes: u64,
}

impl Report {
    pub fn stored(&self) -> Option<ArtifactSet> {
        match self.artifacts {
            Some(Artifacts::Stored(set)) => Some(set),
            Some(Artifacts::Failed(_)) | None => None,
        }
    }
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
    /// The worker says that it never started, and had said before that it did: its disk was put back to an earlier state.
    StartForgotten,
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
            cleanup: None,
        }
    }
}
