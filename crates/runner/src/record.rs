//! The record file: the lock, the tally and the exit record, all in space that was taken before the step started.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use protocol::attempt::End;
use protocol::folder::{
    EXIT_OFFSET, OWNERSHIP_OFFSET, Ownership, RECORD_BYTES, RECORD_FILE, Tally, bound_end, encode_exit, without_output,
};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

use crate::folder_io::{FolderError, cannot};
use crate::notes;

/// A lock that is taken for longer than this is another runner's: whoever only looks has it for microseconds.
const LOCK_PATIENCE: Duration = Duration::from_millis(200);
const LOCK_PAUSE: Duration = Duration::from_micros(200);

pub(crate) struct Record {
    /// Its lock is held until the process ends.
    file: File,
    tally: Tally,
}

impl Record {
    /// Takes the lock and the space, in the current folder.
    pub(crate) fn open() -> Result<Self, FolderError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(RECORD_FILE).map_err(cannot("create the record"))?;
        lock(&file)?;
        preallocate(&file).map_err(cannot("take space for the record"))?;
        Ok(Record { file, tally: Tally::default() })
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Not synced: processes and counts mean nothing after a reboot.
    pub(crate) fn set_tally(&mut self, tally: Tally) {
        if tally == self.tally {
            return;
        }
        self.tally = tally;
        if let Err(error) = self.file.write_all_at(&tally.encode(), 0) {
            notes::write(&format!("cannot update the tally: {error}"));
        }
    }

    /// Not synced, like the tally.
    pub(crate) fn set_ownership(&self, ownership: Ownership) {
        if let Err(error) = self.file.write_all_at(&ownership.encode(), OWNERSHIP_OFFSET as u64) {
            notes::write(&format!("cannot update the ownership: {error}"));
        }
    }

    /// Writes the end and syncs it. Returns what was written: without outputs if there was no room for them.
    pub(crate) fn write_end(&self, end: End) -> End {
        let end = bound_end(end);
        let Err(error) = self.write_and_sync(&end) else {
            return end;
        };
        let why = format!("the outputs could not be written to the exit record: {error}");
        notes::write(&why);
        let end = if end.output.is_empty() { end } else { bound_end(without_output(end, &why)) };
        if let Err(error) = self.write_and_sync(&end) {
            notes::write(&format!("cannot write the exit record: {error}"));
        }
        end
    }

    fn write_and_sync(&self, end: &End) -> io::Result<()> {
        self.file.write_all_at(&encode_exit(end), EXIT_OFFSET as u64)?;
        self.file.sync_data()
    }
}

fn lock(file: &File) -> Result<(), FolderError> {
    let give_up_at = Instant::now() + LOCK_PATIENCE;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < give_up_at => std::thread::sleep(LOCK_PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(FolderError::Locked),
            Err(errno) => return Err(cannot("lock the record")(errno.into())),
        }
    }
}

fn preallocate(file: &File) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, RECORD_BYTES as u64) {
        Err(Errno::OPNOTSUPP) => file.write_all_at(&[0; RECORD_BYTES], 0),
        result => result.map_err(io::Error::from),
    }
}
