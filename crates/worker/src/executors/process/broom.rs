//! Puts away what has ended: attempts that the server has are kept for a while, the rest is removed.
//!
//! A thread of its own, because nobody waits for it.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use protocol::attempt::Ticket;
use protocol::folder::{LOG_FOLDER, WORK_FOLDER};
use uuid::Uuid;

use crate::options::Spool;
use crate::state::Places;

/// How often kept attempts are looked at for their age.
const AGE_INTERVAL: Duration = Duration::from_secs(60);
/// Kept attempts, however small: each costs some files.
const KEPT_MAX: usize = 1000;
/// Under load more are kept, and the surplus goes when it is quiet: ext4 does not give out an inode again within a
/// minute of its deletion, and searches past all of them whenever a file is made.
const KEPT_UNDER_LOAD_MAX: usize = 20_000;
/// How soon a folder that could not be removed is tried again.
const STUBBORN_INTERVAL: Duration = Duration::from_millis(100);
/// Nothing to do for this long is quiet.
const QUIET: Duration = Duration::from_secs(1);
/// A disk with less than this is full: a step may need as much before it prints anything.
const ROOM_MIN: u64 = 1024 * 1024;
/// Removed in one go, so that orders do not wait long.
const PRUNE_BATCH: usize = 500;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Sweep {
    /// The server has all of it.
    Keep { ticket: Ticket },
    /// It never ran.
    Discard { ticket: Ticket },
    /// A step could not be prepared. If that is because the disk is full, what is kept for a rainy day goes.
    MakeRoom,
}

/// The handle of the thread, which ends when this is dropped and all is done.
pub(crate) struct Broom {
    orders: Sender<Sweep>,
}

impl Broom {
    pub(crate) fn start(places: Places, spool: Spool) -> io::Result<(Self, JoinHandle<()>)> {
        let (orders, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new().name("bowline-broom".to_owned());
        let handle = thread.spawn(move || Sweeper::new(places, spool).work(&inbox))?;
        Ok((Broom { orders }, handle))
    }

    pub(crate) fn order(&self, sweep: Sweep) {
        // The thread only ends when this handle is dropped.
        let _ = self.orders.send(sweep);
    }
}

struct Sweeper {
    places: Places,
    spool: Spool,
    /// Oldest first.
    kept: VecDeque<Kept>,
    kept_bytes: u64,
    /// Folders that could not be removed whole, and are tried again.
    stubborn: Vec<PathBuf>,
}

struct Kept {
    attempt: Uuid,
    since: SystemTime,
    bytes: u64,
}

impl Sweeper {
    fn new(places: Places, spool: Spool) -> Self {
        let kept = find_kept(&places.kept);
        let kept_bytes = kept.iter().map(|kept| kept.bytes).sum();
        Sweeper { places, spool, kept, kept_bytes, stubborn: Vec::new() }
    }

    fn work(&mut self, inbox: &Receiver<Sweep>) {
        loop {
            match inbox.recv_timeout(self.patience()) {
                Ok(sweep) => self.perform(sweep),
                Err(RecvTimeoutError::Timeout) => self.prune(KEPT_MAX),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(sweep) = inbox.try_recv() {
                self.perform(sweep);
            }
            self.stubborn.retain(|folder| !remove(folder));
            self.prune(KEPT_UNDER_LOAD_MAX);
        }
    }

    fn patience(&self) -> Duration {
        if !self.stubborn.is_empty() {
            STUBBORN_INTERVAL
        } else if self.kept.len() > KEPT_MAX {
            QUIET
        } else {
            AGE_INTERVAL
        }
    }

    fn perform(&mut self, sweep: Sweep) {
        match sweep {
            Sweep::Keep { ticket } if self.spool.keep_after_ack.is_zero() => self.discard(ticket),
            Sweep::Keep { ticket } => self.keep(ticket),
            Sweep::Discard { ticket } => self.discard(ticket),
            Sweep::MakeRoom => self.make_room(),
        }
    }

    fn discard(&mut self, ticket: Ticket) {
        let folder = self.places.attempt(ticket);
        if !remove(&folder) {
            self.stubborn.push(folder);
        }
    }

    /// Result and log stay; the step's own files go.
    fn keep(&mut self, ticket: Ticket) {
        let folder = self.places.attempt(ticket);
        let work = folder.join(WORK_FOLDER);
        // Most steps leave nothing there, and then even the folder may stay.
        if fs::read_dir(&work).is_ok_and(|mut entries| entries.next().is_some()) {
            remove(&work);
        }
        let path = self.places.kept_attempt(ticket);
        if let Err(error) = fs::rename(&folder, &path) {
            tracing::warn!(folder = %folder.display(), %error, "an attempt that is done cannot be put away");
            remove(&folder);
            return;
        }
        let bytes = log_bytes(&path);
        self.kept_bytes += bytes;
        self.kept.push_back(Kept { attempt: ticket.attempt, since: SystemTime::now(), bytes });
    }

    /// The server has all of it; a worker without room can do nothing.
    fn make_room(&mut self) {
        if self.kept.is_empty() || has_room(&self.places.kept) {
            return;
        }
        tracing::warn!(attempts = self.kept.len(), "the disk is full: attempts that the server has are removed");
        for kept in self.kept.drain(..) {
            remove(&self.places.kept.join(kept.attempt.to_string()));
        }
        self.kept_bytes = 0;
    }

    fn prune(&mut self, kept_max: usize) {
        let now = SystemTime::now();
        for _ in 0..PRUNE_BATCH {
            let Some(oldest) = self.kept.front() else { return };
            let age = now.duration_since(oldest.since).unwrap_or_default();
            let too_old = age >= self.spool.keep_after_ack;
            if !too_old && self.kept.len() <= kept_max && self.kept_bytes <= self.spool.log_bytes {
                return;
            }
            remove(&self.places.kept.join(oldest.attempt.to_string()));
            self.kept_bytes -= oldest.bytes;
            self.kept.pop_front();
        }
    }
}

/// What an earlier worker kept.
fn find_kept(folder: &Path) -> VecDeque<Kept> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut kept: Vec<Kept> = entries
        .filter_map(|entry| {
            let attempt = entry.file_name().to_str()?.parse().ok()?;
            let since = entry.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            Some(Kept { attempt, since, bytes: log_bytes(&entry.path()) })
        })
        .collect();
    kept.sort_by_key(|kept| kept.since);
    kept.into()
}

/// In doubt it has.
fn has_room(folder: &Path) -> bool {
    let Ok(disk) = rustix::fs::statvfs(folder) else { return true };
    // Some file systems have no limit of files, and say so by zero.
    let files = disk.f_files == 0 || disk.f_favail > 0;
    files && disk.f_bavail.saturating_mul(disk.f_frsize) >= ROOM_MIN
}

fn log_bytes(folder: &Path) -> u64 {
    let segments = fs::read_dir(folder.join(LOG_FOLDER)).into_iter().flatten().flatten();
    segments.filter_map(|segment| segment.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Whether it is gone. A runner that is about to leave may still write into it; then it is tried again.
fn remove(folder: &Path) -> bool {
    match fs::remove_dir_all(folder) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => {
            tracing::debug!(folder = %folder.display(), %error, "a folder could not be removed whole");
            false
        }
    }
}
