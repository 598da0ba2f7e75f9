//! Puts away what has ended: attempts that the server has are kept for as long as the [`Shelf`] says, the rest is removed.
//!
//! A thread of its own, because nobody waits for it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use protocol::attempt::Ticket;
use protocol::folder::{LOG_FOLDER, OUTPUT_FILE, WORK_FOLDER};
use tokio::sync::mpsc as tokio_mpsc;
use uuid::Uuid;

use crate::adopt::examine_kept;
use crate::options::Spool;
use crate::shelf::{Kept, Load, Shelf};
use crate::state::Places;

use super::workshop::Done;

/// How soon a folder that could not be removed is tried again.
const STUBBORN_INTERVAL: Duration = Duration::from_millis(100);
/// A disk with less than this is full: a step may need as much before it prints anything.
const ROOM_MIN: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Sweep {
    /// The server has all of it.
    Keep { ticket: Ticket },
    /// It never ran.
    Discard { ticket: Ticket },
    /// A step could not be prepared. If that is because the disk is full, what is kept for a rainy day goes.
    MakeRoom,
    /// The server may have forgotten what it had.
    Recall,
}

/// The handle of the thread, which ends when this is dropped and all is done.
pub(crate) struct Broom {
    orders: Sender<Sweep>,
}

impl Broom {
    /// `done`: where what was recalled is told.
    pub(crate) fn start(
        places: Places,
        spool: Spool,
        done: tokio_mpsc::Sender<Done>,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (orders, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new().name("bowline-broom".to_owned());
        let handle = thread.spawn(move || Sweeper::new(places, spool, done).work(&inbox))?;
        Ok((Broom { orders }, handle))
    }

    pub(crate) fn order(&self, sweep: Sweep) {
        // The thread only ends when this handle is dropped.
        let _ = self.orders.send(sweep);
    }
}

struct Sweeper {
    places: Places,
    shelf: Shelf,
    /// Folders that could not be removed whole, and are tried again.
    stubborn: Vec<PathBuf>,
    done: tokio_mpsc::Sender<Done>,
}

impl Sweeper {
    fn new(places: Places, spool: Spool, done: tokio_mpsc::Sender<Done>) -> Self {
        let shelf = Shelf::new(spool, find_kept(&places.kept));
        Sweeper { places, shelf, stubborn: Vec::new(), done }
    }

    fn work(&mut self, inbox: &Receiver<Sweep>) {
        loop {
            match inbox.recv_timeout(self.patience()) {
                Ok(sweep) => self.perform(sweep),
                Err(RecvTimeoutError::Timeout) => self.prune(Load::Quiet),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(sweep) = inbox.try_recv() {
                self.perform(sweep);
            }
            self.stubborn.retain(|folder| !remove(folder));
            self.prune(Load::Busy);
        }
    }

    fn patience(&self) -> Duration {
        if self.stubborn.is_empty() { self.shelf.patience() } else { STUBBORN_INTERVAL }
    }

    fn perform(&mut self, sweep: Sweep) {
        match sweep {
            Sweep::Keep { ticket } if self.shelf.is_used() => self.keep(ticket),
            Sweep::Keep { ticket } | Sweep::Discard { ticket } => self.discard(ticket),
            Sweep::MakeRoom => self.make_room(),
            Sweep::Recall => self.recall(),
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
        // The record has what was in it, masked; the file itself may hold secrets where a runner died before it was through.
        let _ = fs::remove_file(folder.join(OUTPUT_FILE));
        let path = self.places.kept_attempt(ticket);
        if let Err(error) = fs::rename(&folder, &path) {
            tracing::warn!(folder = %folder.display(), %error, "an attempt that is done cannot be put away");
            remove(&folder);
            return;
        }
        let bytes = log_bytes(&path);
        self.shelf.put(Kept { attempt: ticket.attempt, since: SystemTime::now(), bytes });
    }

    /// Back to where attempts lie that the server does not have. What cannot be moved is not told, but that there is something is.
    fn recall(&mut self) {
        let (mut found, mut complete) = (Vec::new(), true);
        for attempt in self.shelf.recall() {
            let id = attempt.to_string();
            let folder = self.places.attempts.join(&id);
            match fs::rename(self.places.kept.join(&id), &folder) {
                Ok(()) => found.extend(examine_kept(&folder, attempt)),
                Err(error) => {
                    complete = false;
                    tracing::warn!(%attempt, %error, "an attempt that was put away cannot be brought back");
                }
            }
        }
        // Nobody waits for it any more where the worker leaves; the next one finds them.
        let _ = self.done.blocking_send(Done::Recalled { found, complete });
    }

    fn make_room(&mut self) {
        let gone = self.shelf.make_room(|| has_room(&self.places.kept));
        if !gone.is_empty() {
            tracing::warn!(attempts = gone.len(), "the disk is full: attempts that the server has are removed");
            self.remove_kept(&gone);
        }
    }

    fn prune(&mut self, load: Load) {
        let gone = self.shelf.prune(load, SystemTime::now());
        self.remove_kept(&gone);
    }

    fn remove_kept(&self, attempts: &[Uuid]) {
        for attempt in attempts {
            remove(&self.places.kept.join(attempt.to_string()));
        }
    }
}

/// What an earlier worker kept.
fn find_kept(folder: &Path) -> Vec<Kept> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let kept = entries.filter_map(|entry| {
        let attempt = entry.file_name().to_str()?.parse().ok()?;
        let since = entry.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        Some(Kept { attempt, since, bytes: log_bytes(&entry.path()) })
    });
    kept.collect()
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
