//! What nobody wants any more goes: sets that no row has named for a day, and those that stopped coming a day ago.
//!
//! A day is longer than anything that lies between a set's arrival and the commit that names it: whoever reports an end has
//! asked for the set within a few hours before, which makes it young again. So the sweep needs no lock that servers share.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pack::{Layout, SetId};
use store::{Reader, StoreError};
use tokio::sync::watch;

use crate::app::stopped;

use super::{Depot, PACK, PART, Stored};

pub const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// How long a set stays without anybody who names it.
const UNNAMED_FOR: Duration = Duration::from_secs(24 * 3600);
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
    bytes: u64,
    touched: SystemTime,
}

/// Sweeps every hour until the server stops.
pub async fn keep_swept(depot: Arc<Depot>, reader: Arc<dyn Reader>, mut shutdown: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP_EVERY) => {}
            () = stopped(&mut shutdown) => return,
        }
        let (depot, reader) = (depot.clone(), reader.clone());
        let swept = tokio::task::spawn_blocking(move || {
            let wanted = |sets: &[String]| reader.wanted_artifacts(sets);
            depot.sweep(SystemTime::now(), &wanted)
        });
        match swept.await {
            Ok(Ok(Swept { sets: 0, .. })) => {}
            Ok(Ok(Swept { sets, bytes })) => tracing::info!(sets, bytes, "artifacts that nobody wants were removed"),
            Ok(Err(error)) => tracing::warn!(%error, "artifacts could not be looked through; tried again in an hour"),
            Err(error) => tracing::error!(%error, "the sweep of artifacts did not end well"),
        }
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
    pub fn sweep(&self, now: SystemTime, wanted: &Wanted<'_>) -> Result<Swept, SweepError> {
        let old = |touched: SystemTime| now.duration_since(touched).is_ok_and(|age| age >= UNNAMED_FOR);
        let old_ones: Vec<Found> = self.look()?.into_iter().filter(|found| old(found.touched)).collect();
        let mut swept = Swept::default();
        for some in old_ones.chunks(ASKED_AT_ONCE) {
            let names: Vec<String> = some.iter().filter(|f| f.kind == PACK).map(|f| f.id.to_string()).collect();
            let wanted = wanted(&names)?;
            for found in some.iter().filter(|found| found.kind == PART || !wanted.contains(&found.id.to_string())) {
                if remove(&found.path, &old)? {
                    swept.sets += 1;
                    swept.bytes += found.bytes;
                }
            }
        }
        self.recount()?;
        Ok(swept)
    }

    /// Counts what is there. Other servers may have stored and removed things meanwhile.
    pub(super) fn recount(&self) -> io::Result<()> {
        let found = self.look()?;
        let packs = || found.iter().filter(|found| found.kind == PACK);
        let stored = Stored { sets: packs().count() as u64, bytes: packs().map(|found| found.bytes).sum() };
        let mut coming = std::collections::HashMap::new();
        for part in found.iter().filter(|found| found.kind == PART) {
            // One that cannot be read takes its room until it is a day old.
            let whole = fs::File::open(&part.path).ok().and_then(|mut f| Layout::read(&mut f, part.id).ok());
            coming.insert(part.id, whole.map_or(part.bytes, |layout| layout.bytes()));
        }
        let mut books = self.books();
        books.stored = stored;
        books.coming = coming;
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
                let (Ok(metadata), Some((id, kind))) = (entry.metadata(), name_of(&entry.path())) else { continue };
                let touched = metadata.modified().unwrap_or(SystemTime::now());
                found.push(Found { id, path: entry.path(), kind, bytes: metadata.len(), touched });
            }
        }
        Ok(found)
    }
}

fn name_of(path: &Path) -> Option<(SetId, &'static str)> {
    let id = path.file_stem()?.to_str()?.parse().ok()?;
    match path.extension()?.to_str()? {
        PACK => Some((id, PACK)),
        PART => Some((id, PART)),
        _ => None,
    }
}

/// Out of reach first, then away: who made it young in between finds it in its place again. Whether it is gone.
fn remove(path: &Path, old: &dyn Fn(SystemTime) -> bool) -> io::Result<bool> {
    let gone = path.with_extension("gone");
    match fs::rename(path, &gone) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    if old(fs::metadata(&gone)?.modified()?) {
        fs::remove_file(&gone)?;
        return Ok(true);
    }
    fs::rename(&gone, path)?;
    Ok(false)
}
