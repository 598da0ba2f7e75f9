//! The worker's handle of its nursery: started once, and again whenever it is gone.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::{FLAG, wire};
use crate::launch::launch;

/// A nursery answers within a millisecond. One that needs longer than this is stuck, and replaced.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// The nursery at hand may have died since the last time; a fresh one that fails as well will not get better.
const NURSERIES_PER_LAUNCH: usize = 2;

/// Starts runners. When it is dropped the nursery ends, and the runners go on.
#[derive(Debug)]
pub struct Nursery {
    program: PathBuf,
    arguments: Vec<OsString>,
    staff: Mutex<Staff>,
}

#[derive(Debug)]
struct Staff {
    warm: Option<Warm>,
    /// Runners that were started without a nursery, to be reaped by us.
    direct: Vec<Child>,
}

impl Nursery {
    /// A nursery that is `program ARGUMENTS… --nursery`.
    ///
    /// It is started at once, while the program on disk is likely to be the one that calls this. Should that fail,
    /// [`launch`](Nursery::launch) is the time to try again, and to complain.
    pub fn new<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Self {
        let arguments: Vec<OsString> = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
        let warm = Warm::start(program, &arguments).ok();
        let staff = Mutex::new(Staff { warm, direct: Vec::new() });
        Nursery { program: program.to_owned(), arguments, staff }
    }

    /// Starts a runner for `folder`, an absolute path, and returns the line to it.
    ///
    /// If a nursery dies between fork and answer there may be two runners for the folder. They have the same line, and
    /// the folder's lock lets only one of them use it.
    pub fn launch(&self, folder: &Path) -> io::Result<UnixStream> {
        // A thread that panicked has left nothing half done: a request without answer breaks the nursery.
        let mut staff = self.staff.lock().unwrap_or_else(PoisonError::into_inner);
        let (line, theirs) = UnixStream::pair()?;
        for _ in 0..NURSERIES_PER_LAUNCH {
            if let Ok(answer) = self.ask(&mut staff, folder, theirs.as_fd()) {
                answer?;
                return Ok(line);
            }
        }
        // Slower, but a step is not refused because of the nursery. Should a runner be there already after all, it has
        // lost its line, this one's ends, and the worker finds the other by the lock.
        let (child, line) = launch(&self.program, &self.arguments, folder)?;
        staff.direct.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        staff.direct.push(child);
        Ok(line)
    }

    /// The outer error means that the nursery was of no use; it is gone then.
    fn ask(&self, staff: &mut Staff, folder: &Path, socket: BorrowedFd<'_>) -> io::Result<Result<(), Errno>> {
        let warm = match staff.warm.take() {
            Some(warm) => warm,
            None => Warm::start(&self.program, &self.arguments)?,
        };
        wire::send_request(&warm.socket, folder, socket)?;
        let answer = wire::receive_answer(&warm.socket)?;
        // Only a nursery that has answered may be asked again: a late answer would be taken for the next one's.
        staff.warm = Some(warm);
        Ok(answer)
    }
}

/// A living nursery, as far as we know.
#[derive(Debug)]
struct Warm {
    process: Child,
    socket: OwnedFd,
}

impl Warm {
    fn start(program: &Path, arguments: &[OsString]) -> io::Result<Self> {
        let (socket, theirs) = wire::pair()?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_PATIENCE))?;
        let process = Command::new(program)
            .args(arguments)
            .arg(FLAG)
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Warm { process, socket })
    }
}

impl Drop for Warm {
    /// It has nothing to lose, and one that is stuck would not hear anything gentler.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
