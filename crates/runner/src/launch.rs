//! Starting a runner by itself, where there is no nursery, and finding one again.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use protocol::folder::SOCKET;

/// Starts `program ARGUMENTS… FOLDER` as the runner of `folder`, with one end of a socket pair as its standard input.
///
/// The caller keeps the other end, reads [`FromRunner`](protocol::folder::FromRunner) lines from it, and must wait for
/// the child one day. Nothing here makes `Command` fall back from `posix_spawn` to a fork of the whole worker.
pub fn launch<S: AsRef<OsStr>>(program: &Path, arguments: &[S], folder: &Path) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(program)
        .args(arguments)
        .arg(folder)
        .current_dir(folder)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, ours))
}

/// Connects to a living runner that somebody else started; it then says at once how far it is.
///
/// A runner listens from the moment it has lost its worker. So `NotFound` and `ConnectionRefused` mean that it has not
/// noticed yet, or that it is leaving: try again shortly while [`runner_lives`](crate::folder_io::runner_lives).
pub fn connect(folder: &Path) -> io::Result<UnixStream> {
    // A socket's name is limited to 108 bytes, a folder's is not: go by its descriptor.
    let folder = File::open(folder)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}
