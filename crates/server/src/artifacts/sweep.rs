//! What nobody wants any more goes: sets that no row has named for a day, and those that stopped coming an hour ago. Where room is
//! wanted, or old jobs have just been deleted, unnamed sets go after two hours, and half-finished ones after a quarter of one.
//!
//! Two hours are longer than anything that lies between a set's arrival and the commit that names it: whoever reports an end has
//! asked for the set within the half hour before, which makes it young again. So the sweep needs no lock that servers share. While
//! the ledger is not sure of its rows, and in a folder that belongs to another installation's database, nothing goes at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use pack::{Layout, SetId};
use store::{Reader, StoreError};
use tokio::sync::watch;

use crate::app::stopped;
use crate::ledger::Ledger;
use crate::metrics::Metrics;

use super::installation::INSTALLATION;
use super::{Depot, GONE, PACK, PART, Stored};

pub const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// How often it is looked whether a sweep cannot wait.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long a set stays without anybody who names it.
pub(super) const UNNAMED_FOR: Duration = Duration::from_secs(24 * 3600);
/// The same where room is wanted.
pub(super) const UNNAMED_FOR_AT_LEAST: Duration = Duration::from_secs(2 * 3600);
/// A part to which nobody adds: its sender tries again within seconds, and gives up after ten minutes.
const PART_IDLE: Duration = Duration::from_secs(3600);
/// The same where somebody else needs the room.
const PART_IDLE_AT_LEAST: Duration = Duration::from_secs(15 * 60);
/// Asked of the database at a time.
const ASKED_AT_ONCE: usize = 500;

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub sets: usize,
    pub bytes: u64,
}

/// A file of the depot, as a look at the folder finds it.
struct Found {
    id: SetId,
    path: PathBuf,
    kind: &'static str,
    /// Somebody was about to remove it.
    going: bool,
    bytes: u64,
    touched: SystemTime,
}

impl Found {
    fn is_old(&self, now: SystemTime, unnamed_for: Duration) -> bool {
        is_old(self.touched, now, age_of(self.kind, unnamed_for))
    }
}

fn is_old(touched: SystemTime, now: SystemTime, age: Duration) -> bool {
    now.duration_since(touched).is_ok_and(|passed| passed >= age)
}

/// What the sweep goes by, besides the folder.
#[derive(Clone)]
pub struct SweepTerms {
    pub ledger: Ledger,
    pub reader: Arc<dyn Reader>,
    pub metrics: Arc<Metrics>,
    /// Whether the folder belongs to this database.
    pub is_ours: bool,
}

/// Sweeps every hour until the server stops, and sooner where old jobs were deleted or room is wanted.
pub async fn keep_swept(depot: Arc<Depot>, terms: SweepTerms, mut shutdown: watch::Receiver<bool>) {
    let (mut last, mut retained) = (Instant::now(), terms.metrics.retention().ended_at);
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stopped(&mut shutdown) => return,
        }
        let ended = terms.metrics.retention().ended_at;
        let soon = terms.is_ours && (ended != retained || depot.is_room_wanted());
        let due = last.elapsed() >= SWEEP_EVERY;
        // As with retention: rows that are not there yet, or were lost, may name sets.
        let in_doubt = terms.metrics.is_in_doubt() || !terms.ledger.is_healthy();
        if in_doubt || !(soon || due) {
            continue;
        }
        (last, retained) = (Instant::now(), ended);
        if !terms.is_ours {
            tracing::error!(
                "the folder of artifacts belongs to another installation, so nothing is removed from it; if that is wrong, remove its file {INSTALLATION} and start the server again"
            );
            continue;
        }
        let age = if soon { UNNAMED_FOR_AT_LEAST } else { UNNAMED_FOR };
        sweep_once(depot.clone(), terms.reader.clone(), age).await;
    }
}

async fn sweep_once(depot: Arc<Depot>, reader: Arc<dyn Reader>, unnamed_for: Duration) {
    let swept = tokio::task::spawn_blocking(move || {
        let wanted = |sets: &[String]| reader.wanted_artifacts(sets);
        depot.sweep(SystemTime::now(), unnamed_for, &wanted)
    });
    match swept.await {
        Ok(Ok(Swept { sets: 0, .. })) => {}
        Ok(Ok(Swept { sets, bytes })) => tracing::info!(sets, bytes, "artifacts that nobody wants were removed"),
        Ok(Err(error)) => tracing::warn!(%error, "artifacts could not be looked through; tried again in an hour"),
        Err(error) => tracing::error!(%error, "the sweep of artifacts did not end well"),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the folder of artifacts cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Which of these sets a row names.
pub(super) type Wanted<'a> = dyn Fn(&[String]) -> Result<Vec<String>, StoreError> + 'a;

impl Depot {
    /// `wanted` says which of some sets are named by a row.
    pub fn sweep(&self, now: SystemTime, unnamed_for: Duration, wanted: &Wanted<'_>) -> Result<Swept, SweepError> {
        let found = self.look()?.into_iter();
        let some: Vec<Found> = found.filter(|found| found.going || found.is_old(now, unnamed_for)).collect();
        let mut swept = Swept::default();
        for some in some.chunks(ASKED_AT_ONCE) {
            let names: Vec<String> = some.iter().filter(|f| f.kind == PACK).map(|f| f.id.to_string()).collect();
            let wanted = wanted(&names)?;
            for found in some {
                let goes = found.is_old(now, unnamed_for)
                    && (found.kind == PART || !wanted.contains(&found.id.to_string()))
                    && !self.books().busy.contains(&found.id);
                if !goes {
                    put_back(found)?;
                } else if remove(found, &|touched| is_old(touched, now, age_of(found.kind, unnamed_for)))? {
                    swept.sets += 1;
                    swept.bytes += found.bytes;
                }
            }
        }
        self.recount()?;
        Ok(swept)
    }

    /// Removes what nobody has added to for a while, and says how many there were.
    pub(super) fn drop_idle_parts(&self, now: SystemTime) -> io::Result<usize> {
        let old = |touched| is_old(touched, now, PART_IDLE_AT_LEAST);
        let mut dropped = 0;
        for part in self.look()?.iter().filter(|found| found.kind == PART && !found.going && old(found.touched)) {
            if !self.books().busy.contains(&part.id) && remove(part, &old)? {
                dropped += 1;
            }
        }
        if dropped > 0 {
            self.recount()?;
        }
        Ok(dropped)
    }

    /// Whether a set was refused for want of room since the last sweep.
    fn is_room_wanted(&self) -> bool {
        self.books().room_wanted
    }

    /// Counts what is there. Other servers may have stored and removed things meanwhile.
    pub(super) fn recount(&self) -> io::Result<()> {
        let before = self.books().coming.clone();
        let found = self.look()?;
        let packs = || found.iter().filter(|found| found.kind == PACK && !found.going);
        let stored = Stored { sets: packs().count() as u64, bytes: packs().map(|found| found.bytes).sum() };
        let mut coming = std::collections::HashMap::new();
        for part in found.iter().filter(|found| found.kind == PART && !found.going) {
            // One that cannot be read takes its room until it is swept away.
            let whole = fs::File::open(&part.path).ok().and_then(|mut f| Layout::read(&mut f, part.id).ok());
            coming.insert(part.id, whole.map_or(part.bytes, |layout| layout.bytes()));
        }
        let mut books = self.books();
        // Those that were announced while the folder was looked through.
        coming.extend(books.coming.iter().filter(|(id, _)| !before.contains_key(id)).map(|(id, room)| (*id, *room)));
        books.stored = stored;
        books.coming = coming;
        books.room_wanted = false;
        Ok(())
    }

    fn look(&self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for folder in fs::read_dir(&self.root)? {
            let folder = folder?;
            if !folder.file_type()?.is_dir() {
                continue;
            }
            for entry in fs::read_dir(folder.path())? {
                let entry = entry?;
                // Gone since the folder was read, or none of ours.
                let (Ok(metadata), Some((id, kind, going))) = (entry.metadata(), name_of(&entry.path())) else {
                    continue;
                };
                let touched = metadata.modified().unwrap_or(SystemTime::now());
                found.push(Found { id, path: entry.path(), kind, going, bytes: metadata.len(), touched });
            }
        }
        Ok(found)
    }
}

fn age_of(kind: &str, unnamed_for: Duration) -> Duration {
    if kind == PART { PART_IDLE } else { unnamed_for }
}

/// The set, what it is, and whether somebody was about to remove it.
fn name_of(path: &Path) -> Option<(SetId, &'static str, bool)> {
    if path.extension()?.to_str()? == GONE {
        // Earlier versions did not say what it was; what they sweep is a pack almost always.
        let inner = path.with_extension("");
        let known = name_of(&inner).map(|(id, kind, _)| (id, kind));
        let (id, kind) = known.or_else(|| Some((inner.file_name()?.to_str()?.parse().ok()?, PACK)))?;
        return Some((id, kind, true));
    }
    let id = path.file_stem()?.to_str()?.parse().ok()?;
    match path.extension()?.to_str()? {
        PACK => Some((id, PACK, false)),
        PART => Some((id, PART, false)),
        _ => None,
    }
}

/// Out of reach first, then away: who made it young in between finds it in its place again. Whether it is gone. A server that
/// dies half-way leaves it out of reach, and the next sweep goes on from there.
fn remove(found: &Found, old: &dyn Fn(SystemTime) -> bool) -> io::Result<bool> {
    let gone = PathBuf::from(format!("{}.{GONE}", home(found).display()));
    if !found.going && !is_there(fs::rename(&found.path, &gone))? {
        return Ok(false);
    }
    let gone = if found.going { &found.path } else { &gone };
    let touched = match fs::metadata(gone).and_then(|metadata| metadata.modified()) {
        Ok(touched) => touched,
        // Another server has done it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if old(touched) {
        return is_there(fs::remove_file(gone));
    }
    is_there(fs::rename(gone, home(found))).map(|_| false)
}

/// Back to its place, unless somebody has brought it there anew.
fn put_back(found: &Found) -> io::Result<()> {
    if !found.going {
        return Ok(());
    }
    let home = home(found);
    let done = if home.exists() { fs::remove_file(&found.path) } else { fs::rename(&found.path, home) };
    is_there(done).map(drop)
}

/// Where it belongs.
fn home(found: &Found) -> PathBuf {
    found.path.with_file_name(format!("{}.{}", found.id, found.kind))
}

/// Whether what was to be moved or removed was there at all.
fn is_there(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
