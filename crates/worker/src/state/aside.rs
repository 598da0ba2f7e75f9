//! Attempts of a state folder that may have come from elsewhere.

use std::fs::{self, File};
use std::io;

use runner::folder_io;

use super::Places;
use super::origin::is_set_aside;
use crate::adopt;

/// Puts every attempt without an exit record in which nobody lives aside, untouched.
pub(super) fn set_unfinished_aside(places: &Places) -> io::Result<()> {
    let mut moved = false;
    for entry in fs::read_dir(&places.attempts)? {
        let entry = entry?;
        let folder = entry.path();
        if is_set_aside(&folder_io::read_record(&folder), adopt::is_inhabited(&folder)) {
            tracing::warn!(folder = %folder.display(), "an attempt of another state folder is set aside");
            fs::create_dir_all(&places.aside)?;
            fs::rename(folder, places.aside.join(entry.file_name()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of the move, before anything else is written: after a power cut it must not be in both, or back.
    #[test]
    fn what_is_set_aside_stays_there_after_a_power_cut() {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(root.path().join("attempts/a")).expect("made");
        let calls = testkit::disk_calls(
            "state::aside::tests::what_is_set_aside_stays_there_after_a_power_cut",
            root.path(),
            |root| {
                let [attempts, kept, aside] = ["attempts", "kept", "aside"].map(|name| root.join(name));
                set_unfinished_aside(&Places { attempts, kept, aside }).expect("a disk without faults");
            },
        );
        let Some(calls) = calls else { return };
        assert_eq!(calls, ["rename aside/a", "fsync aside", "fsync attempts"]);
    }
}
