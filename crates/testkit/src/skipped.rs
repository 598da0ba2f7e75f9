//! Saying what a machine has no means to test. A test that is passed over looks like one that passed, so a run says at its end which were.

use std::fs::OpenOptions;
use std::io::Write as _;

/// The file to which a whole run's skipped tests are written (`make test` shows it).
const FILE_VARIABLE: &str = "BOWLINE_SKIPPED";

/// To be called by a test, on its own thread, right before it returns.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {why}\n", thread.name().unwrap_or("a test"));
    eprint!("skipped: {line}");
    if let Some(path) = std::env::var_os(FILE_VARIABLE) {
        // One `write` to a file that is opened for appending: tests are processes of their own.
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        opened.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skipped tests takes a line");
    }
}
