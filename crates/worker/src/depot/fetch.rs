//! Brings the files that earlier steps left into an attempt's folder, before it starts.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use pack::{SetId, UnpackError, unpack};
use protocol::attempt::Fetch;
use runner::folder_io;

use super::http::download;
use super::{Carrier, Setback, blocking};

/// One try: sets that are whole already are only unpacked again.
pub(super) async fn fetch(carrier: &Carrier) -> Result<(), Setback> {
    let folder = carrier.folder.clone();
    let spec = blocking(move || {
        folder_io::read_spec(&folder).map_err(|error| Setback::Passing(format!("its folder cannot be read: {error}")))
    })
    .await?;
    let root = spec.attempt.working_folder(&carrier.folder);
    for (number, fetch) in spec.attempt.fetch.iter().enumerate() {
        let of_step = |setback: Setback| match setback {
            Setback::Passing(why) => Setback::Passing(format!("the artifacts of `{}`: {why}", fetch.step)),
            Setback::ForGood(why) => {
                Setback::ForGood(format!("the artifacts of `{}` could not be fetched: {why}", fetch.step))
            }
        };
        one(carrier, fetch, number, &root).await.map_err(of_step)?;
    }
    Ok(())
}

async fn one(carrier: &Carrier, fetch: &Fetch, number: usize, root: &Path) -> Result<(), Setback> {
    let set = &fetch.set.id;
    let id: SetId = set.parse().map_err(|_| Setback::ForGood(format!("`{set}` is no name of a set")))?;
    let file = carrier.folder.join(format!("fetch-{number}.pack"));
    download(carrier, set, &file).await?;
    let to = fetch.to.as_ref().map_or_else(|| root.to_owned(), |to| root.join(to));
    let root = root.to_owned();
    blocking(move || open(&file, id, &root, &to)).await
}

fn open(file: &Path, id: SetId, root: &Path, to: &PathBuf) -> Result<(), Setback> {
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
    let unpacked = unpack(&mut BufReader::new(opened), id, to);
    // What it held is in its place; or it is not what it should be, and is fetched again.
    let _ = fs::remove_file(file);
    match unpacked {
        Ok(_) => Ok(()),
        Err(error @ (UnpackError::Pack(_) | UnpackError::Differs(_))) => Err(Setback::Passing(error.to_string())),
        Err(error) => Err(Setback::ForGood(error.to_string())),
    }
}
