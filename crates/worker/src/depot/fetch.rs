//! Brings the files that earlier steps left into an attempt's folder, before it starts.

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use pack::{SetId, UnpackError, unpack};
use protocol::attempt::Fetch;
use runner::folder_io;

use super::http::{Download, download};
use super::{Carrier, Setback, blocking, unreadable};

/// Tries that may find no set, each ten seconds after the last at most: about a minute.
const MISSING_TRIES: u32 = 8;

/// What the tries before have brought.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// So many sets, from the first on, are in their places.
    sets: usize,
    /// Bytes of their packs.
    bytes: u64,
    /// Tries that found a set on no server.
    missing: u32,
}

/// One try: from the first set on that is not in its place yet.
pub(super) async fn fetch(carrier: &Carrier, done: &mut Done) -> Result<(), Setback> {
    let folder = carrier.folder.clone();
    let spec = blocking(move || folder_io::read_spec(&folder).map_err(unreadable)).await?;
    let root = spec.attempt.working_folder(&carrier.folder);
    for (number, fetch) in spec.attempt.fetch.iter().enumerate().skip(done.sets) {
        let of_step = |setback: Setback| match setback {
            Setback::Passing(why) => Setback::Passing(format!("the artifacts of `{}`: {why}", fetch.step)),
            Setback::Anew(why) => {
                Setback::Anew(format!("the artifacts of `{}` could not be fetched: {why}", fetch.step))
            }
            Setback::ForGood(why) => {
                Setback::ForGood(format!("the artifacts of `{}` could not be fetched: {why}", fetch.step))
            }
        };
        let bytes = one(carrier, fetch, number, &root, done).await.map_err(of_step)?;
        done.bytes += bytes;
        done.sets += 1;
    }
    Ok(())
}

/// How long the set's pack was.
async fn one(carrier: &Carrier, fetch: &Fetch, number: usize, root: &Path, done: &mut Done) -> Result<u64, Setback> {
    let set = &fetch.set.id;
    let id: SetId = set.parse().map_err(|_| Setback::ForGood(format!("`{set}` is no name of a set")))?;
    let file = carrier.folder.join(format!("fetch-{number}.pack"));
    match download(carrier, set, &file, done.bytes).await? {
        Download::Whole => {}
        // A folder that servers share may show late what another one has stored, and a server that was just set up may be corrected.
        Download::NotThere if done.missing < MISSING_TRIES => {
            done.missing += 1;
            return Err(Setback::Passing("the server does not have them".to_owned()));
        }
        Download::NotThere => return Err(Setback::ForGood("the server does not have them any more".to_owned())),
    }
    let to = fetch.to.as_ref().map_or_else(|| root.to_owned(), |to| root.join(to));
    let root = root.to_owned();
    blocking(move || open(&file, id, &root, &to)).await
}

fn open(file: &Path, id: SetId, root: &Path, to: &PathBuf) -> Result<u64, Setback> {
    // A folder of its own is made for the step; another one must be there.
    let own = file.parent().is_some_and(|folder| root.starts_with(folder));
    if !own && !root.is_dir() {
        return Err(Setback::ForGood(format!("there is no folder {}", root.display())));
    }
    fs::create_dir_all(to).map_err(|error| Setback::ForGood(format!("cannot make {}: {error}", to.display())))?;
    if !to.starts_with(root) {
        return Err(Setback::ForGood(format!("{} is not below the step's folder", to.display())));
    }
    let opened = File::open(file).map_err(|error| Setback::Passing(error.to_string()))?;
    let length = opened.metadata().map_err(|error| Setback::Passing(error.to_string()))?.len();
    let unpacked = unpack(&mut BufReader::new(opened), id, to);
    // What it held is in its place; or it is not what it should be, and is fetched again.
    let _ = fs::remove_file(file);
    match unpacked {
        Ok(_) => Ok(length),
        Err(error @ (UnpackError::Pack(_) | UnpackError::Differs(_))) => Err(Setback::Anew(error.to_string())),
        Err(UnpackError::Io { path, source }) if source.kind() == ErrorKind::StorageFull => {
            Err(Setback::Passing(format!("cannot write {}: {source}", path.display())))
        }
        Err(error) => Err(Setback::ForGood(error.to_string())),
    }
}
