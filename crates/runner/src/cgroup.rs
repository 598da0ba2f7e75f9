//! A cgroup (v2) of the step's own: the one net that nothing the step starts can leave.
//!
//! Where no writable v2 tree is at hand, the process group and the runner as subreaper have to do.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Under the worker's own cgroup.
const PARENT_NAME: &str = "bowline";

/// Finds and makes a folder for the cgroups of steps. Called once by a worker; the answer goes into `Local`.
pub fn find_parent() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    // The pure layout, then the hybrid one.
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].iter().find_map(|mount| {
        let base = Path::new(mount).join(own.trim_start_matches('/'));
        let v2 = base.join("cgroup.procs").exists() && base.join("cgroup.controllers").exists();
        if v2 { make_parent(&base) } else { None }
    })
}

fn make_parent(base: &Path) -> Option<PathBuf> {
    let parent = base.join(PARENT_NAME);
    match fs::create_dir(&parent) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(_) => return None,
    }
    // With the memory controller the kernel tells which step it killed for want of memory. Good where allowed.
    let _ = fs::write(base.join("cgroup.subtree_control"), "+memory");
    let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
    // The step is born inside, which the kernel allows only to those who may write both ends.
    let probe = Cgroup::create(&parent.join(format!("probe-{}", std::process::id()))).ok()?;
    let usable = fs::OpenOptions::new().write(true).open(probe.path.join("cgroup.procs")).is_ok();
    probe.remove().ok()?;
    usable.then_some(parent)
}

#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    pub fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir(path)?;
        Ok(Cgroup { path: path.to_owned() })
    }

    /// One that a runner made earlier; `None` if it is gone, and with it all that was inside.
    pub fn open(path: &Path) -> Option<Self> {
        path.is_dir().then(|| Cgroup { path: path.to_owned() })
    }

    pub(crate) fn descriptor(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// KILL to everything inside, in one go. Without `cgroup.kill` (kernels before 5.14) one by one.
    pub fn kill(&self) -> io::Result<()> {
        match fs::write(self.path.join("cgroup.kill"), "1") {
            Err(error) if error.kind() == ErrorKind::NotFound && self.path.is_dir() => self.kill_one_by_one(),
            result => result,
        }
    }

    /// Removes it if nothing lives inside (zombies do not count); `ResourceBusy` otherwise.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Whether the kernel killed anything inside for want of memory.
    pub(crate) fn oom_killed(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        events.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
    }

    fn kill_one_by_one(&self) -> io::Result<()> {
        let members = fs::read_to_string(self.path.join("cgroup.procs"))?;
        for pid in members.lines().filter_map(|line| line.parse().ok()) {
            crate::sys::kill_process(pid);
        }
        Ok(())
    }
}
