//! Named places where a test can stop a process of ours and look, or kill, before it lets it go on.
//!
//! Server, worker and runner call [`at`] at each stage of an attempt's life. That does nothing, and costs nothing,
//! unless the feature `points` is on *and* assertions are: a release binary cannot have it. The testkit's `Pauses` is
//! the other side:
//!
//! ```text
//!  BOWLINE_PAUSE_AT=intent  BOWLINE_PAUSE_DIR=DIR
//!  this process:  appends its pid to DIR/intent, waits for DIR/intent.go
//!  the test:      waits for DIR/intent, does its worst, creates DIR/intent.go: nobody stops there any more
//! ```

/// The stages of an attempt, in the order in which it passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Worker: an offer has come, nothing was made for it.
    Offered,
    /// Server: the worker asks whether it may start; nothing is decided.
    Accepted,
    /// Server: the start is committed, `go` is not sent.
    Granted,
    /// Runner: the folder is claimed, nothing executes.
    Intent,
    /// Runner: the child executes, and nobody was told.
    Exec,
    /// Runner: the child has ended, and that is written nowhere.
    EndedNotRecorded,
    /// Runner: the exit record is on disk, and nobody was told.
    RecordedNotReported,
    /// Server: the end is committed, the worker has not heard of it.
    ReportedNotAcknowledged,
    /// Server: some bytes of the files that an attempt leaves are on disk, not all.
    ArtifactsComing,
    /// Server: the files that an attempt leaves are stored, and nobody was told.
    ArtifactsStored,
    /// Server: a trigger's time has come, which is decided under a lease, and nothing is written.
    Firing,
    /// Server: something old is about to be deleted under a lease.
    Deleting,
    /// Server: what only one server sweeps out is about to be, under a lease.
    Sweeping,
}

impl Point {
    /// Those that every attempt passes.
    pub const ALL: [Point; 8] = [
        Point::Offered,
        Point::Accepted,
        Point::Granted,
        Point::Intent,
        Point::Exec,
        Point::EndedNotRecorded,
        Point::RecordedNotReported,
        Point::ReportedNotAcknowledged,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Point::Offered => "offered",
            Point::Accepted => "accepted",
            Point::Granted => "granted",
            Point::Intent => "intent",
            Point::Exec => "exec",
            Point::EndedNotRecorded => "ended-not-recorded",
            Point::RecordedNotReported => "recorded-not-reported",
            Point::ReportedNotAcknowledged => "reported-not-acknowledged",
            Point::ArtifactsComing => "artifacts-coming",
            Point::ArtifactsStored => "artifacts-stored",
            Point::Firing => "firing",
            Point::Deleting => "deleting",
            Point::Sweeping => "sweeping",
        }
    }
}

/// The variable that names the point to stop at, and the one that names the folder for marks.
pub const POINT_VARIABLE: &str = "BOWLINE_PAUSE_AT";
pub const FOLDER_VARIABLE: &str = "BOWLINE_PAUSE_DIR";

/// Whether this build can stop at all.
pub const POSSIBLE: bool = cfg!(all(feature = "points", debug_assertions));

/// Stops here, if a test wants it.
#[inline]
pub fn at(point: Point) {
    if POSSIBLE {
        stop(point);
    }
}

/// Blocks the thread on purpose: the process is to stand still as a whole, as far as this attempt goes.
fn stop(point: Point) {
    use std::io::Write;
    if std::env::var(POINT_VARIABLE).ok().as_deref() != Some(point.name()) {
        return;
    }
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(std::path::PathBuf::from) else { return };
    let open = folder.join(format!("{}.go", point.name()));
    if open.exists() {
        return;
    }
    let mark = std::fs::OpenOptions::new().create(true).append(true).open(folder.join(point.name()));
    // Without a mark the test would wait in vain, and says so itself.
    let marked = mark.and_then(|mut mark| writeln!(mark, "{}", std::process::id()));
    // A folder that is gone took its test with it.
    while marked.is_ok() && folder.exists() && !open.exists() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
