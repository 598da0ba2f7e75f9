//! Attempts of a state folder that came from elsewhere.

use std::fs::{self, File};
use std::io;

use runner::folder_io;

use super::Places;
use super::origin::is_set_aside;

/// Puts every attempt without an exit record aside, untouched.
pub(super) fn set_unfinished_aside(places: &Places) -> io::Result<()> {
    let mut moved = false;
    for entry in fs::read_dir(&places.attempts)? {
        let entry = entry?;
        if is_set_aside(&folder_io::read_record(&entry.path())) {
            tracing::warn!(folder = %entry.path().display(), "an attempt of another state folder is set aside");
            fs::create_dir_all(&places.aside)?;
            fs::rename(entry.path(), places.aside.join(entry.file_name()))?;
            moved = true;
        }
    }
    // Before the folder is said to be at home: they must not be back after a power cut.
    if moved {
        File::open(&places.aside)?.sync_all()?;
        File::open(&places.attempts)?.sync_all()?;
    }
    Ok(())
}
