//! What steps did, as they say themselves: a file for each attempt, which Bowline does not know.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use testkit::House;

/// No step takes as long.
const LONGEST: Duration = Duration::from_secs(60);

/// A job's id, a step's name and an attempt's number.
pub(super) type Place = (String, String, u32);

#[derive(Debug)]
pub(super) struct Outside {
    /// A file for each attempt that was ever started, with a line for each start.
    starts: PathBuf,
    /// A file for each step that is never to run twice at once, locked while it runs.
    locks: PathBuf,
    /// A line for each start beside another one of the same step.
    overlaps: PathBuf,
}

impl Outside {
    pub(super) fn new(house: &House) -> Outside {
        let [starts, locks] = ["starts", "locks"].map(|name| house.path(name));
        [&starts, &locks].into_iter().for_each(|folder| std::fs::create_dir_all(folder).expect("made"));
        Outside { starts, locks, overlaps: house.path("overlaps") }
    }

    /// For a script: the first thing that it does. It is written before the script goes on, and survives every kill.
    pub(super) fn begin(&self) -> String {
        format!("echo $$ >> {}/$BOWLINE_JOB_ID.$BOWLINE_STEP.$BOWLINE_ATTEMPT", self.starts.display())
    }

    /// For a script that must be the only one of its step. What it starts should not have the lock: `9>&-`.
    pub(super) fn lock(&self) -> String {
        let (lock, overlaps) = (self.locks.display(), self.overlaps.display());
        format!(
            "exec 9>>{lock}/$BOWLINE_JOB_ID.$BOWLINE_STEP\n      \
             flock -n 9 || echo $BOWLINE_JOB_ID $BOWLINE_STEP $BOWLINE_ATTEMPT >> {overlaps}"
        )
    }

    /// How often each attempt was started.
    pub(super) fn starts(&self) -> BTreeMap<Place, usize> {
        files(&self.starts).into_iter().map(|path| (place(&path), pids(&path).len())).collect()
    }

    /// Of steps that may still run.
    pub(super) fn recent(&self) -> Vec<u32> {
        let since = SystemTime::now() - LONGEST;
        let is_recent = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).is_ok_and(|at| at > since);
        let mut recent: Vec<PathBuf> = files(&self.starts).into_iter().filter(is_recent).collect();
        recent.sort();
        recent.iter().flat_map(|path| pids(path)).collect()
    }

    pub(super) fn overlaps(&self) -> String {
        std::fs::read_to_string(&self.overlaps).unwrap_or_default()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path()).collect()
}

fn pids(path: &Path) -> Vec<u32> {
    std::fs::read_to_string(path).expect("readable").lines().filter_map(|line| line.parse().ok()).collect()
}

fn place(path: &Path) -> Place {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    let parts: Vec<&str> = name.split('.').collect();
    let [job, step, attempt] = parts[..] else { panic!("a job, a step and an attempt: {name}") };
    (job.to_owned(), step.to_owned(), attempt.parse().expect("a number"))
}
