//! The exit codes, each with one meaning.

use std::process::ExitCode;

use api::JobState;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The job succeeded, or the command did what it was asked.
    Success,
    /// The job failed.
    Failed,
    /// Wrong usage or bad input.
    Usage,
    /// The job was cancelled.
    Cancelled,
    /// The server, or a database, could not be reached, or the token was refused.
    NoServer,
    /// Whoever read our output went away before the job ended, and it goes on: its result is not known. The number is
    /// what a shell shows for any tool that this happens to.
    Detached,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Cancelled => 3,
            Exit::NoServer => 4,
            Exit::Detached => 141,
        }
    }

    /// What the end of a job means for a script. A job that is not final has no result yet; nobody asks then.
    pub(crate) fn of_job(state: JobState) -> Exit {
        match state {
            JobState::Success => Exit::Success,
            JobState::Failed => Exit::Failed,
            JobState::Cancelled => Exit::Cancelled,
            JobState::Pending | JobState::Running | JobState::Held | JobState::Recovering | JobState::Cancelling => {
                Exit::Success
            }
        }
    }

    /// For several jobs: a failure goes before a cancel, a cancel before success.
    pub(crate) fn worse(self, other: Exit) -> Exit {
        let rank = |exit| match exit {
            Exit::Success => 0,
            Exit::Cancelled => 1,
            Exit::Failed => 2,
            Exit::Usage => 3,
            Exit::NoServer => 4,
            Exit::Detached => 5,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_codes() {
        assert_eq!(Exit::of_job(JobState::Success).code(), 0);
        assert_eq!(Exit::of_job(JobState::Failed).code(), 1);
        assert_eq!(Exit::of_job(JobState::Cancelled).code(), 3);
        assert_eq!(Exit::Cancelled.worse(Exit::Failed), Exit::Failed);
        assert_eq!(Exit::Failed.worse(Exit::Cancelled), Exit::Failed);
        assert_eq!(Exit::Success.worse(Exit::Cancelled), Exit::Cancelled);
    }
}
