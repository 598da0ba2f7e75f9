//! One server per database file. The lock is a file beside it, so that `sqlite3` and other readers can still look.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use store::StoreError;

/// Held while it lives. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct ServerLock {
    _file: File,
}

impl ServerLock {
    pub(crate) fn take(database: &Path) -> Result<ServerLock, StoreError> {
        let path = crate::place::beside(database, ".lock");
        let unavailable = |what: &str, e: &dyn std::fmt::Display| StoreError::Unavailable {
            message: format!("cannot {what} the lock file {}: {e}", path.display()),
        };
        // Not truncated: it may hold the number of the process that we must name.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Whoever may write to it could keep a server from starting.
            .mode(0o600)
            .open(&path)
            .map_err(|e| unavailable("open", &e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { path: database.display().to_string(), holder: read_holder(&mut file) });
            }
            Err(TryLockError::Error(e)) => return Err(unavailable("lock", &e)),
        }
        write_holder(&mut file).map_err(|e| unavailable("write", &e))?;
        Ok(ServerLock { _file: file })
    }
}

fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{}", std::process::id())
}
