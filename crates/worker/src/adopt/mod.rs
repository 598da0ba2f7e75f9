//! What lies in the state folder when a worker starts, and what a folder says when its runner has gone silent.
//!
//! The lock decides who lives, the claim whether it may have run, the record how it ended; process numbers only
//! serve to kill what is left. "Cannot tell yet" is an answer of its own: [`Look::Dying`].

mod look;
mod orphans;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use protocol::attempt::{AttemptSpec, OnDisconnect};
use runner::clock;
use runner::folder_io::{self, FolderError};
use uuid::Uuid;

use crate::agent::{Finding, Found, FoundLease};
use crate::ship;
use crate::state::Places;
pub(crate) use look::{Look, end_lease, look};

/// How long the remains of a dead runner's step may take to die before the start goes on without a verdict on it.
const DYING_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at them.
const DYING_PAUSE: Duration = Duration::from_millis(10);

/// What lies in the folder of attempts.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) found: Vec<Found>,
    /// Whatever is not in `found` is not here.
    pub(crate) complete: bool,
}

/// Looks at every attempt. `rebooted`: no process of an earlier worker can be alive.
pub(crate) fn scan(places: &Places, rebooted: bool) -> io::Result<Scan> {
    let mut found = Vec::new();
    for entry in fs::read_dir(&places.attempts)? {
        let entry = entry?;
        let Some(id) = entry.file_name().to_str().and_then(|name| Uuid::parse_str(name).ok()) else {
            tracing::warn!(path = %entry.path().display(), "not an attempt's folder; left alone");
            continue;
        };
        found.extend(examine(&entry.path(), id, rebooted));
    }
    let readable = found.iter().all(|found| found.finding != Finding::Unreadable);
    let complete = readable && !orphans::live_under(&places.attempts);
    Ok(Scan { found, complete })
}

/// `None` for a folder that is none.
fn examine(folder: &Path, id: Uuid, rebooted: bool) -> Option<Found> {
    let give_up_at = Instant::now() + DYING_PATIENCE;
    loop {
        match look(folder, rebooted) {
            Ok(Look::Clear { spec, finding }) => return Some(describe(folder, &spec.attempt, finding)),
            Ok(Look::Dying { spec }) if Instant::now() >= give_up_at => {
                // It counts as running until it is proved otherwise.
                return Some(describe(folder, &spec.attempt, Finding::Running));
            }
            Ok(Look::Dying { .. }) => std::thread::sleep(DYING_PAUSE),
            Ok(Look::HalfMade) => {
                tracing::info!(folder = %folder.display(), "a half-made attempt folder is removed");
                if let Err(error) = fs::remove_dir_all(folder) {
                    tracing::warn!(folder = %folder.display(), %error, "it cannot be removed");
                }
                return None;
            }
            Err(error) => {
                log_unreadable(folder, &error);
                return Some(look::unreadable(folder, id));
            }
        }
    }
}

fn describe(folder: &Path, spec: &AttemptSpec, finding: Finding) -> Found {
    let span = ship::bounds(folder).unwrap_or_else(|error| {
        tracing::warn!(folder = %folder.display(), %error, "the log cannot be read now");
        None
    });
    Found {
        ticket: spec.ticket,
        job: spec.job,
        step: spec.step.clone(),
        finding,
        log_first_seq: span.map_or(0, |span| span.first_seq),
        log_last_seq: span.map_or(0, |span| span.last_seq),
        lease: lease(folder, spec),
    }
}

/// Where the record does not say how far it goes, it may just have begun.
fn lease(folder: &Path, spec: &AttemptSpec) -> Option<FoundLease> {
    let length = spec.lease_ms.filter(|_| spec.on_disconnect == OnDisconnect::Stop).map(Duration::from_millis)?;
    let ownership = folder_io::read_record(folder).ok().and_then(|recorded| recorded.ownership);
    let from = ownership.map_or_else(clock::boot_now, |ownership| Duration::from_millis(ownership.confirmed_ms));
    Some(FoundLease { length, from })
}

fn log_unreadable(folder: &Path, error: &FolderError) {
    tracing::error!(folder = %folder.display(), %error, "an attempt's folder cannot be read; it is left alone");
}
