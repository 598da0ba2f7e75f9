//! Whose sets lie in the folder. A database that has never heard of them must not have them swept away.

use std::fs;
use std::io::{self, ErrorKind, Write};

use store::{Store, StoreError};

use super::Depot;

/// In the folder of artifacts: the id of the database that names its sets.
pub(super) const INSTALLATION: &str = ".installation";

/// In the database.
const META_KEY: &str = "installation";

#[derive(Debug, thiserror::Error)]
pub enum InstallationError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the system gave no random bytes: {0}")]
    NoChance(#[from] getrandom::Error),
}

/// The id of the database, which is given one if it has none.
pub fn id_of(store: &mut impl Store) -> Result<String, InstallationError> {
    if let Some(id) = store.reader().meta(META_KEY)? {
        return Ok(id);
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    store.set_meta(META_KEY, &format!("{:032x}", u128::from_be_bytes(bytes)))?;
    // Of several servers that start at once the last word counts.
    Ok(store.reader().meta(META_KEY)?.unwrap_or_default())
}

impl Depot {
    /// Whether the folder belongs to this database. One that belongs to nobody does from now on.
    pub fn belongs_to(&self, id: &str) -> io::Result<bool> {
        let path = self.root.join(INSTALLATION);
        match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(id.as_bytes())?;
                file.sync_all()?;
                return Ok(true);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let owner = fs::read_to_string(&path)?;
        // An empty one was begun when the power went.
        if owner.trim().is_empty() {
            fs::write(&path, id)?;
            return Ok(true);
        }
        Ok(owner.trim() == id)
    }
}
