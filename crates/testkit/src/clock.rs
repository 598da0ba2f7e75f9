//! A wall clock that the test moves, for one process, with Debian's `faketime`.

use std::path::{Path, PathBuf};

use crate::skipped::skipped;

/// Where Debian, by architecture, and others put the library.
const PLACES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

/// The wall clock of those who are started with [`FakeClock::variables`]. Their monotonic clock is left alone.
#[derive(Debug)]
pub struct FakeClock {
    library: &'static str,
    file: PathBuf,
}

impl FakeClock {
    /// `None`, and a printed reason, where the library is not installed.
    pub fn new(folder: &Path) -> Option<FakeClock> {
        let Some(library) = PLACES.into_iter().find(|place| Path::new(place).exists()) else {
            skipped("no libfaketime here; install Debian's package `faketime`");
            return None;
        };
        let clock = FakeClock { library, file: folder.join("faketime") };
        clock.step(0);
        Some(clock)
    }

    pub fn variables(&self) -> Vec<(String, String)> {
        let file = self.file.display().to_string();
        [
            ("LD_PRELOAD", self.library),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    /// So many seconds off the true time from now on; negative is the past. It takes effect at once.
    pub fn step(&self, seconds: i64) {
        // By rename: a reader must never see half of it.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}s\n")).and_then(|()| std::fs::rename(&new, &self.file)).expect("set");
    }
}
