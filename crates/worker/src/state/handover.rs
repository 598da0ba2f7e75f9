//! How a worker gets its state folder from a caretaker: it connects to a socket in it, and waits for the lock.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use protocol::state::HANDOVER_SOCKET;
use tokio::net::UnixListener;

/// Asks the caretaker, if there is one.
pub(super) fn ask(root: &Path) -> io::Result<()> {
    let (_folder, path) = short_path(root)?;
    UnixStream::connect(path).map(drop)
}

/// Where the caretaker hears of it. The folder is locked, so nobody else listens.
pub(crate) fn listen(root: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(root.join(HANDOVER_SOCKET)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (_folder, path) = short_path(root)?;
    UnixListener::bind(path)
}

/// A socket's name is limited to 108 bytes, a folder's is not: go by its descriptor.
fn short_path(root: &Path) -> io::Result<(File, String)> {
    let folder = File::open(root)?;
    let path = format!("/proc/self/fd/{}/{HANDOVER_SOCKET}", folder.as_raw_fd());
    Ok((folder, path))
}
