//! Whether a state folder is where it was made: copies of it must not speak for attempts that live under the original.
//!
//! A runner's lock is on a file of the folder that it was started in. In a copy every lock is free, so every attempt
//! would look dead, and its processes, by their numbers, would be killed. So a copy lets go of what has no result.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use planted::Bug;
use runner::folder_io::{FolderError, Recorded};
use serde::{Deserialize, Serialize};

/// Tells a folder from its copies, as far as its file system can. Moving it within the file system changes nothing.
///
/// The device's number is left out: it may change with a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub inode: u64,
    /// `None` where the file system does not tell.
    #[serde(default)]
    pub created_us: Option<u64>,
}

impl Mark {
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(folder)?;
        let created = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let created_us = created.and_then(|since| u64::try_from(since.as_micros()).ok());
        Ok(Mark { inode: metadata.ino(), created_us })
    }

    /// Beyond doubt: some file systems change one of the two when they are mounted again, none both.
    fn is_of_another_folder(self, known: Mark) -> bool {
        let created = matches!((self.created_us, known.created_us), (Some(here), Some(there)) if here != there);
        created && self.inode != known.inode
    }
}

/// Where a folder is, or was when it was last at home. Of a machine without an id of its own nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    pub machine: Option<&'a str>,
    /// `None`: of a folder that is new, or was made by an earlier version.
    pub mark: Option<Mark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    AtHome,
    /// It never had a mark: it gets one, and is at home.
    Unmarked,
    /// Nothing says whose it is: it is new, or somebody deleted that. Attempts that lie in it all the same may be another
    /// folder's, and what has no result is [set aside](is_set_aside).
    Nameless,
    /// It came from elsewhere, or its file system changed its mind about it. What has no result may live there: it is
    /// [set aside](is_set_aside), and the folder is at home here from now on.
    Moved,
    /// It certainly is a copy: two workers must not share an identity.
    Copy,
}

impl Home {
    /// `known` is what the folder says itself, and `here` where it lies now.
    pub fn judge(known: Option<Place<'_>>, here: Place<'_>) -> Self {
        if planted::is(Bug::CopyAtHome) {
            return Home::AtHome;
        }
        let Some(known) = known else { return Home::Nameless };
        let other_machine = matches!((known.machine, here.machine), (Some(known), Some(here)) if known != here);
        match (known.mark, here.mark) {
            (Some(known), Some(here)) if here.is_of_another_folder(known) => Home::Copy,
            (Some(known), Some(here)) if here != known => Home::Moved,
            _ if other_machine => Home::Moved,
            (Some(_), _) => Home::AtHome,
            (None, _) => Home::Unmarked,
        }
    }
}

/// Whether an attempt of a folder that has [moved](Home::Moved) or has [no name](Home::Nameless) is put aside, untouched. What
/// has a result, by its record, is as true here as anywhere; and what processes live in is no copy.
pub fn is_set_aside(record: &Result<Recorded, FolderError>, inhabited: bool) -> bool {
    !inhabited && !matches!(record, Ok(Recorded { end: Some(_), .. }))
}

/// Whether the machine has been restarted since it was `looked_at`, a boot's id or nothing.
pub fn is_rebooted(looked_at: &str, boot_id: &str) -> bool {
    !looked_at.is_empty() && looked_at != boot_id
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { inode: 5, created_us: Some(50) };

    fn at(machine: &str, mark: Mark) -> Place<'_> {
        Place { machine: Some(machine), mark: Some(mark) }
    }

    #[test]
    fn a_folder_is_at_home_where_machine_and_mark_say_so() {
        let known = at("here", MARK);
        for (now, expected) in [
            (known, Home::AtHome),
            (Place { machine: None, ..known }, Home::AtHome),
            (at("here", Mark { inode: 6, ..MARK }), Home::Moved),
            (at("here", Mark { created_us: Some(51), ..MARK }), Home::Moved),
            (at("here", Mark { inode: 6, created_us: None }), Home::Moved),
            (at("elsewhere", MARK), Home::Moved),
            (at("here", Mark { inode: 6, created_us: Some(51) }), Home::Copy),
            (at("elsewhere", Mark { inode: 6, created_us: Some(51) }), Home::Copy),
        ] {
            assert_eq!(Home::judge(Some(known), now), expected, "{now:?}");
        }
    }

    #[test]
    fn a_folder_without_a_mark_gets_one_and_loses_nothing_unless_the_machine_is_another() {
        let unmarked = Place { machine: Some("here"), mark: None };
        assert_eq!(Home::judge(Some(unmarked), at("here", MARK)), Home::Unmarked);
        assert_eq!(Home::judge(Some(unmarked), at("elsewhere", MARK)), Home::Moved);
        assert_eq!(Home::judge(Some(unmarked), Place { machine: None, mark: Some(MARK) }), Home::Unmarked);
        assert_eq!(Home::judge(None, at("here", MARK)), Home::Nameless);
    }

    #[test]
    fn a_boot_that_was_never_seen_is_no_restart() {
        assert!(!is_rebooted("", "now"));
        assert!(!is_rebooted("now", "now"));
        assert!(is_rebooted("before", "now"));
    }
}
