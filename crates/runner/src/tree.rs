//! The step's processes: its own, its group, its cgroup, and strays that the runner inherited.

use std::io::ErrorKind;

use crate::cgroup::Cgroup;
use crate::notes;
use crate::proc_stat;
use crate::sys;

/// The runner's children that are no part of the step.
pub(crate) type Helpers = [Option<i32>; 2];

pub(crate) struct Tree {
    leader: i32,
    cgroup: Option<Cgroup>,
}

impl Tree {
    pub(crate) fn new(leader: i32, cgroup: Option<Cgroup>) -> Self {
        Tree { leader, cgroup }
    }

    pub(crate) fn leader(&self) -> i32 {
        self.leader
    }

    /// The step's own signal, to its group. A number that is no signal becomes TERM.
    pub(crate) fn ask_to_stop(&self, signal: i32) {
        let known = (1..=libc::SIGRTMAX()).contains(&signal);
        sys::kill_group(self.leader, if known { signal } else { libc::SIGTERM });
    }

    /// Only while the leader is not reaped: later the number may be somebody else's.
    pub(crate) fn kill_group(&self) {
        sys::kill_group(self.leader, libc::SIGKILL);
    }

    /// KILL to everything, while the leader lives.
    pub(crate) fn kill_all(&self, spared: Helpers) {
        self.kill_group();
        if let Some(cgroup) = &self.cgroup {
            kill_cgroup(cgroup);
        }
        kill_strays(spared);
    }

    pub(crate) fn oom_killed(&self) -> bool {
        self.cgroup.as_ref().is_some_and(Cgroup::oom_killed)
    }

    /// Removes the cgroup, after killing what is left in it. Mostly there is nothing, and removing is the cheapest way to know.
    pub(crate) fn empty_cgroup(&self) {
        let Some(cgroup) = &self.cgroup else { return };
        match cgroup.remove() {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => kill_cgroup(cgroup),
            Err(error) => notes::write(&format!("cannot remove the step's cgroup: {error}")),
            Ok(()) => {}
        }
    }
}

impl Drop for Tree {
    /// By now everything has had its KILL and its time to die; what is stuck in the kernel keeps its cgroup.
    fn drop(&mut self) {
        if let Some(cgroup) = &self.cgroup {
            let _ = cgroup.remove();
        }
    }
}

/// KILL to every other child of the runner but its helpers. Their children become ours when they die, and are found next time.
/// Whether there were any.
pub(crate) fn kill_strays(spared: Helpers) -> bool {
    let own = std::process::id() as i32;
    let mut found = false;
    for process in proc_stat::all().filter(|process| process.parent == own && !spared.contains(&Some(process.pid))) {
        found = true;
        if !process.zombie {
            sys::kill_process(process.pid);
        }
    }
    found
}

fn kill_cgroup(cgroup: &Cgroup) {
    if let Err(error) = cgroup.kill() {
        notes::write(&format!("cannot kill the step's cgroup: {error}"));
    }
}
