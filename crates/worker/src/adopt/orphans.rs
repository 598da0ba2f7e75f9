//! Who lives in an attempt's folder, by the kernel's own word: the current folder of a runner and of its guard is the attempt's
//! own, and a step starts below it. Where the folder was deleted under them nothing else tells.
//!
//! A step that went elsewhere, or was started elsewhere, cannot be found this way; its runner can.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open, pidfd_send_signal};
use uuid::Uuid;

/// What the kernel adds to the path of a current folder that is no more.
const DELETED: &[u8] = b" (deleted)";

/// Who lives in an attempt's folder that was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Orphans {
    /// The runner, or the guard of its step.
    pub runner: bool,
    /// Something of the step.
    pub step: bool,
}

impl Orphans {
    pub const NONE: Orphans = Orphans { runner: false, step: false };
}

/// Who lives in this one.
pub(super) fn of(folder: &Path) -> Orphans {
    let mut orphans = Orphans::NONE;
    for (_, home) in homeless() {
        orphans.runner |= home == folder;
        orphans.step |= is_below(&home, folder);
    }
    orphans
}

/// KILL to the step of this one, and to its runner and guard as well if they are meant.
pub(super) fn kill(folder: &Path, with_runner: bool) {
    let meant = |home: &Path| is_below(home, folder) || with_runner && home == folder;
    for (pid, _) in homeless().filter(|(_, home)| meant(home)) {
        kill_if(pid, || lost_home(pid).is_some_and(|home| meant(&home)));
    }
}

/// The attempts whose folders under `attempts` were deleted and in which somebody lives.
pub(super) fn under(attempts: &Path) -> BTreeSet<Uuid> {
    let names = homeless().filter_map(|(_, home)| {
        let attempt = home.strip_prefix(attempts).ok()?.components().next()?;
        // A step may have deleted a folder of its own.
        let is_gone = !attempts.join(attempt).exists();
        attempt.as_os_str().to_str().filter(|_| is_gone)?.parse().ok()
    });
    names.collect()
}

/// Whether anybody lives in a folder that is there.
pub(crate) fn is_inhabited(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    processes().any(|pid| home_of(pid).is_some_and(|home| home.starts_with(&folder)))
}

fn is_below(home: &Path, folder: &Path) -> bool {
    home != folder && home.starts_with(folder)
}

/// Processes whose current folder was deleted, and where that was.
fn homeless() -> impl Iterator<Item = (Pid, PathBuf)> {
    processes().filter_map(|pid| Some((pid, lost_home(pid)?)))
}

fn processes() -> impl Iterator<Item = Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| Pid::from_raw(process.file_name().to_str()?.parse().ok()?))
}

fn lost_home(pid: Pid) -> Option<PathBuf> {
    let home = home_of(pid)?;
    let home = home.as_os_str().as_bytes().strip_suffix(DELETED)?.to_vec();
    Some(PathBuf::from(OsString::from_vec(home)))
}

/// A process's current folder, as the kernel names it. `None` for other users' processes, which are none of ours.
fn home_of(pid: Pid) -> Option<PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let is_ours = fs::metadata(&process).ok()?.uid() == geteuid().as_raw();
    is_ours.then(|| fs::read_link(process.join("cwd")).ok())?
}

/// The number may have become somebody else's since it was read: it is held, looked at once more, and only then killed.
fn kill_if(pid: Pid, is_meant: impl FnOnce() -> bool) {
    let held = pidfd_open(pid, PidfdFlags::empty());
    if !is_meant() {
        return;
    }
    let killed = match held {
        Ok(held) => pidfd_send_signal(held, Signal::KILL),
        // Kernels before 5.3.
        Err(Errno::NOSYS) => kill_process(pid, Signal::KILL),
        Err(errno) => Err(errno),
    };
    match killed {
        Ok(()) => tracing::warn!(%pid, "what lived on in an attempt's folder that was deleted is ended"),
        Err(errno) => tracing::debug!(%pid, %errno, "what lives on in a deleted folder could not be ended"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    const ONE: Uuid = Uuid::from_u128(1);

    /// Reads its input until that ends.
    fn resident(home: &Path) -> Child {
        let mut cat = Command::new("cat");
        cat.current_dir(home).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat is everywhere")
    }

    /// A folder with somebody at home and somebody at work, as the kernel names it.
    fn inhabited(attempts: &Path) -> (PathBuf, [Child; 2]) {
        let folder = attempts.canonicalize().expect("it is there").join(ONE.to_string());
        fs::create_dir_all(folder.join("work")).expect("room");
        let residents = [resident(&folder), resident(&folder.join("work"))];
        (folder, residents)
    }

    fn leaves(resident: &mut Child) {
        drop(resident.stdin.take());
        resident.wait().expect("it ends with its input");
    }

    #[test]
    fn who_lives_in_a_folder_that_was_deleted() {
        let state = tempfile::tempdir().expect("a temporary folder");
        let (folder, [mut runner, mut step]) = inhabited(state.path());
        let attempts = folder.parent().expect("it has one");
        assert_eq!((of(&folder), under(attempts)), (Orphans::NONE, BTreeSet::new()), "it is there");
        fs::remove_dir_all(&folder).expect("it was made here");
        assert_eq!(of(&folder), Orphans { runner: true, step: true });
        assert_eq!(under(attempts), BTreeSet::from([ONE]));
        assert_eq!(of(&attempts.join(Uuid::from_u128(2).to_string())), Orphans::NONE, "another one's");
        leaves(&mut runner);
        assert_eq!(of(&folder), Orphans { runner: false, step: true });
        fs::create_dir(&folder).expect("room");
        assert_eq!(under(attempts), BTreeSet::new(), "a step's own folder");
        fs::remove_dir(&folder).expect("it was made here");
        leaves(&mut step);
        assert_eq!((of(&folder), under(attempts)), (Orphans::NONE, BTreeSet::new()), "all are gone");
    }

    #[test]
    fn nobody_is_killed_but_who_is_meant() {
        let state = tempfile::tempdir().expect("a temporary folder");
        let (folder, [mut runner, mut step]) = inhabited(state.path());
        kill(&folder, true);
        fs::remove_dir_all(&folder).expect("it was made here");
        kill(&folder.join("wor"), true);
        kill(&folder, false);
        assert!(!step.wait().expect("it is dead").success());
        assert_eq!(of(&folder), Orphans { runner: true, step: false });
        kill(&folder, true);
        assert!(!runner.wait().expect("it is dead").success());
        assert_eq!(of(&folder), Orphans::NONE);
    }
}
