//! Whether a state folder is where it was made: copies of it must not speak for attempts that live under the original.
//!
//! A runner's lock is on a file of the folder that it was started in. In a copy every lock is free, so every attempt
//! would look dead, and its processes, by their numbers, would be killed. So a copy lets go of what has no result.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use runner::folder_io::{self, Recorded};
use serde::{Deserialize, Serialize};

use super::Places;

/// Tells a folder from its copies, as far as its file system can. Moving it within the file system changes nothing.
///
/// The device's number is left out: it may change with a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    inode: u64,
    /// `None` where the file system does not tell.
    #[serde(default)]
    created_us: Option<u64>,
}

impl Mark {
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(folder)?;
        let created = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created_us = created.and_then(|since| u64::try_from(since.as_micros()).ok());
        Ok(Mark { inode: metadata.ino(), created_us })
    }

    /// Beyond doubt: some file systems change one of the two when they are mounted again, none both.
    pub(super) fn is_of_another_folder(self, known: Mark) -> bool {
        let created = matches!((self.created_us, known.created_us), (Some(here), Some(there)) if here != there);
        created && self.inode != known.inode
    }
}

/// Puts every attempt without an exit record aside, untouched. What has one is as true here as anywhere.
pub(super) fn set_unfinished_aside(places: &Places) -> io::Result<()> {
    for entry in fs::read_dir(&places.attempts)? {
        let entry = entry?;
        let has_result = matches!(folder_io::read_record(&entry.path()), Ok(Recorded { end: Some(_), .. }));
        if !has_result {
            tracing::warn!(folder = %entry.path().display(), "an attempt of another state folder is set aside");
            fs::create_dir_all(&places.aside)?;
            fs::rename(entry.path(), places.aside.join(entry.file_name()))?;
        }
    }
    Ok(())
}
