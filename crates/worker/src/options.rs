//! What a worker is told when it starts. The caller has read flags, files and environment already.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How one worker is to run.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// `http://host:port`, tried in turn.
    pub servers: Vec<String>,
    pub name: String,
    pub tags: Vec<String>,
    pub slots: u32,
    /// The state folder: identity, credential, attempts. Made if it is not there.
    pub state: PathBuf,
    /// Only needed while the state folder has no credential.
    pub enroll_token: Option<String>,
    pub no_reconnect: bool,
    pub ephemeral: bool,
    /// One step, then exit.
    pub once: bool,
    /// No new work: look after what lives in the state folder, and end with it.
    pub caretaker: bool,
    /// How runners start a caretaker when this worker stays away. `None`: they do not.
    pub caretaker_command: Option<CaretakerCommand>,
    /// After an orderly stop runners wait this long before they start one.
    pub stop_grace: Duration,
    /// The first order to stop ends the steps as well.
    pub stop_steps: bool,
    pub spool: Spool,
    /// How a runner is started.
    pub runner: RunnerCommand,
    /// The version that the hello names.
    pub version: String,
}

/// What the worker keeps on its disk for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spool {
    /// Per attempt.
    pub log_lines: u64,
    pub log_bytes: u64,
    /// How long an attempt is kept after the server has all of it.
    pub keep_after_ack: Duration,
}

impl Default for Spool {
    fn default() -> Self {
        Spool { log_lines: 1_000_000, log_bytes: 1024 * 1024 * 1024, keep_after_ack: Duration::from_secs(24 * 60 * 60) }
    }
}

/// `program arguments… FOLDER` runs one attempt; `program arguments… --nursery` forks such runners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

impl RunnerCommand {
    /// This very program, as `bowline runner`.
    pub fn this_program() -> std::io::Result<Self> {
        Ok(RunnerCommand { program: this_program()?, arguments: vec!["runner".into()] })
    }
}

/// `program arguments…` runs a worker as caretaker of this worker's state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaretakerCommand {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// Where this program lies. If it was replaced since it was started: where its successor lies.
pub fn this_program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    Ok(without_deleted(&path).filter(|successor| successor.exists()).unwrap_or(path))
}

/// The kernel marks the path of a program that was replaced or removed.
fn without_deleted(path: &Path) -> Option<PathBuf> {
    path.as_os_str().to_str()?.strip_suffix(" (deleted)").map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_program_is_looked_for_where_it_was() {
        assert_eq!(without_deleted(Path::new("/usr/bin/bowline (deleted)")), Some("/usr/bin/bowline".into()));
        assert_eq!(without_deleted(Path::new("/usr/bin/bowline")), None);
    }
}
