//! What the runner has to complain about, for whoever looks into the folder. Most attempts never have such a file.

use std::fs::OpenOptions;
use std::io::Write;

use protocol::folder::NOTES_FILE;

/// Appends a line to the notes of the current folder. If even that fails there is nobody left to tell.
pub(crate) fn write(text: &str) {
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(NOTES_FILE) {
        let _ = writeln!(file, "{text}");
    }
}
