//! What lies in the state folder when a worker starts, and what a folder says when its runner has gone silent.
//!
//! The lock decides who lives, the claim whether it may have run, the record how it ended; process numbers only
//! serve to kill what is left. "Cannot tell yet" is an answer of its own: [`Look::Dying`].
//!
//! Decisions ([`look`], [`take_back`], [`end_lease`], [`examine`], [`Next`]) see the disk through [`Folder`], so that a simulated one
//! will do. In reading order: `folder`, `orphans`, `look`, `examine`; `scan` goes through all of them.

mod examine;
mod folder;
mod look;
mod orphans;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use protocol::attempt::Ticket;
use runner::clock;
use uuid::Uuid;

use crate::agent::Found;
use crate::state::Places;
pub use examine::{DYING_PATIENCE, DYING_PAUSE, Examined, examine, is_complete, look_at_kept};
pub(crate) use folder::OnDisk;
pub use folder::{Folder, NotedLoss};
pub use look::{Look, Next, RETRY_PAUSE, UNREADABLE_PAUSE, end_lease, look, take_back};
pub use orphans::Orphans;
pub(crate) use orphans::is_inhabited;

/// What lies in the folder of attempts.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) found: Vec<Found>,
    /// What lives although its folder was deleted: it is looked at until it is gone.
    pub(crate) orphans: Vec<Ticket>,
    /// Whatever is not in `found` is not here.
    pub(crate) complete: bool,
}

/// Looks at every attempt. `rebooted`: no process of an earlier worker can be alive.
pub(crate) fn scan(places: &Places, rebooted: bool) -> io::Result<Scan> {
    let mut folders: Vec<(Uuid, PathBuf)> = Vec::new();
    for entry in fs::read_dir(&places.attempts)? {
        let entry = entry?;
        match entry.file_name().to_str().and_then(|name| Uuid::parse_str(name).ok()) {
            Some(id) => folders.push((id, entry.path())),
            None => tracing::warn!(path = %entry.path().display(), "not an attempt's folder; left alone"),
        }
    }
    folders.sort_unstable();
    let found: Vec<Found> =
        folders.iter().filter_map(|(id, folder)| examine_to_the_end(folder, *id, rebooted)).collect();
    let orphans: Vec<Ticket> =
        orphans::under(&places.attempts).into_iter().map(|attempt| Ticket { attempt, fence: 0 }).collect();
    for orphan in &orphans {
        tracing::warn!(attempt = %orphan.attempt, "processes live on in an attempt's folder that was deleted");
    }
    let complete = is_complete(&found, !orphans.is_empty());
    Ok(Scan { found, orphans, complete })
}

/// The same for one that was put away. `None` for a folder that is none.
pub(crate) fn examine_kept(folder: &Path, id: Uuid) -> Option<Found> {
    look_at_kept(&mut OnDisk(folder), clock::boot_now()).or_else(|| examine_to_the_end(folder, id, false))
}

/// `None` for a folder that is none.
pub(crate) fn examine_to_the_end(folder: &Path, id: Uuid, rebooted: bool) -> Option<Found> {
    let began = Instant::now();
    loop {
        match examine(&mut OnDisk(folder), id, rebooted, began.elapsed(), clock::boot_now()) {
            Examined::Found(found) => return Some(*found),
            Examined::Dying => std::thread::sleep(DYING_PAUSE),
            Examined::HalfMade => {
                tracing::info!(folder = %folder.display(), "a half-made attempt folder is removed");
                if let Err(error) = fs::remove_dir_all(folder) {
                    tracing::warn!(folder = %folder.display(), %error, "it cannot be removed");
                }
                return None;
            }
        }
    }
}
