//! What a runner that was itself killed left behind. The worker calls this when it finds a free lock and no exit record,
//! and when a runner has not ended its step in time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use protocol::folder::{FolderSpec, RECORD_FILE, Tally};

use crate::cgroup::Cgroup;
use crate::folder_io::{self, FolderError};
use crate::proc_stat;
use crate::sys;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remains {
    /// Nothing of the step lives any more.
    None,
    /// Something does, and was sent KILL; ask again.
    Dying,
}

/// Kills the step's group and cgroup if anything in them still lives. Call it until it says [`Remains::None`].
///
/// Without a cgroup only the group can be found: a process that left it, whose runner is dead, is out of reach.
pub fn kill(spec: &FolderSpec, tally: Option<Tally>) -> Remains {
    let group = tally.is_some_and(|tally| kill_group(&tally));
    let cgroup = spec.cgroup().as_deref().and_then(Cgroup::open).is_some_and(|cgroup| kill_cgroup(&cgroup));
    if group || cgroup { Remains::Dying } else { Remains::None }
}

/// The same for a step whose runner lives but does not act, as one that is frozen: the runner is killed as well.
pub fn kill_with_runner(folder: &Path, spec: &FolderSpec, tally: Option<Tally>) -> Result<Remains, FolderError> {
    // The step first: it is why we are here.
    let runner = holder(folder).or_else(|| tally.and_then(|tally| parent(&tally)));
    let remains = kill(spec, tally);
    if !folder_io::runner_lives(folder)? {
        return Ok(remains);
    }
    // It lives, so it lived when it was looked for, and was nobody else.
    if let Some(runner) = runner {
        sys::kill_process(runner);
    }
    Ok(Remains::Dying)
}

/// Who holds the record's lock, by the kernel's own list. The runner may not have come to write down its child.
fn holder(folder: &Path) -> Option<i32> {
    let inode = fs::metadata(folder.join(RECORD_FILE)).ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let holders = locks.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = fields[..] else { return None };
        (file.rsplit(':').next() == Some(inode.as_str())).then(|| pid.parse().ok())?
    });
    // Numbers of files repeat between disks; a runner also is at home in its folder.
    let home = folder.canonicalize().ok()?;
    holders.filter(|pid| *pid > 1).find(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == home))
}

/// Of the step's own process, even if that is a zombie by now.
fn parent(tally: &Tally) -> Option<i32> {
    let step = proc_stat::read(i32::try_from(tally.pid).ok()?)?;
    (step.start_time == tally.start_time && step.parent > 1).then_some(step.parent)
}

fn kill_group(tally: &Tally) -> bool {
    let Ok(leader) = i32::try_from(tally.pid) else { return false };
    if leader <= 1 || is_reused(leader, tally.start_time) {
        return false;
    }
    let lives = proc_stat::all().any(|process| process.group == leader && !process.zombie);
    if lives {
        sys::kill_group(leader, libc::SIGKILL);
    }
    lives
}

/// The kernel gives a number out again only when no process has it as its own or as its group's.
fn is_reused(leader: i32, start_time: u64) -> bool {
    proc_stat::read(leader).is_some_and(|stat| stat.start_time != start_time)
}

fn kill_cgroup(cgroup: &Cgroup) -> bool {
    // Busy or not permitted: either way somebody may be inside.
    let lives = cgroup.remove().is_err();
    if lives {
        let _ = cgroup.kill();
    }
    lives
}
