//! A process of the product: started, watched for `ready`, ended by its pid.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::Outcome;

/// Far more than a start may take; a process that needs longer hangs.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// A process that was told to stop commits what it has and leaves.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// Lines of its own log that are shown when a process did not do its work.
const TAIL_LINES: usize = 15;

/// Killed if it is dropped without [`Process::stop`].
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: Pid,
    log: PathBuf,
}

impl Process {
    /// Starts it with its log in the file `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Outcome<Process> {
        let file = File::create(log).map_err(|error| format!("cannot make {}: {error}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {:?}: {error}", command.as_std().get_program()))?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or("a new process has no pid")?;
        Ok(Process { child, pid, log: log.to_owned() })
    }

    /// Starts it and waits until it prints `ready`. Gives the time that took, too.
    pub(crate) async fn start_ready(command: &mut Command, log: &Path) -> Outcome<(Process, Duration)> {
        let begin = Instant::now();
        let mut process = Process::start(command.stdout(Stdio::piped()), log)?;
        let stdout = process.child.stdout.take().ok_or("the process has no stdout")?;
        match timeout(READY_TIMEOUT, wait_ready(stdout)).await {
            Ok(true) => Ok((process, begin.elapsed())),
            Ok(false) => Err(process.complaint("it ended before it was ready")),
            Err(_) => Err(process.complaint("it did not say `ready`")),
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// TERM, and wait for it.
    pub(crate) async fn stop(mut self) -> Outcome<()> {
        if self.child.try_wait()?.is_some() {
            return Err(self.complaint("it ended by itself"));
        }
        kill_process(self.pid, Signal::TERM)?;
        match timeout(STOP_TIMEOUT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(self.complaint(&format!("it was told to stop and ended with {status}"))),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(self.complaint("it was told to stop and did not")),
        }
    }

    /// KILL, and wait for it.
    pub(crate) async fn kill(&mut self) -> Outcome<()> {
        Ok(self.child.kill().await?)
    }

    /// What went wrong, with the end of the process's own log.
    pub(crate) fn complaint(&self, what: &str) -> Box<dyn std::error::Error + Send + Sync> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n  ");
        let name = self.log.file_stem().unwrap_or_default().to_string_lossy();
        format!("{name}: {what}; its last lines:\n  {tail}").into()
    }
}

/// Whether `ready` came. What comes after it is read and dropped, so that the process never blocks on it.
async fn wait_ready(stdout: ChildStdout) -> bool {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line == "ready" {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return true;
        }
    }
    false
}
