//! Any process, by its number: who lives, who is whose child, and signals.

use std::path::Path;
use std::process::Command;

use crate::wait::await_that;

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill runs");
    assert!(status.success(), "no process {pid}");
}

/// Whether a process lives. A zombie does not: whoever should reap an orphan may take seconds to do it.
pub fn lives(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Kills it and waits until it is gone.
pub fn kill(pid: u32) {
    signal(pid, "KILL");
    await_that(&format!("process {pid} is gone"), || (!lives(pid)).then_some(()));
}

pub fn parent(pid: u32) -> u32 {
    parent_if_any(pid).expect("it lives")
}

/// The same for one that may be gone.
pub fn parent_if_any(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

pub fn children(pid: u32) -> Vec<u32> {
    let is_child = |other: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{other}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == pid.to_string()))
    };
    numbers().filter(is_child).collect()
}

/// Kills it, if it is still there.
pub fn end(pid: u32) {
    let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
}

fn numbers() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // The name before it may hold anything, brackets included.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Stands still until it is dropped.
#[derive(Debug)]
pub struct Frozen(u32);

impl Frozen {
    /// SIGSTOP; returns when the kernel says that it has stopped.
    pub fn new(pid: u32) -> Frozen {
        signal(pid, "STOP");
        await_that(&format!("process {pid} has stopped"), || (state(pid) == Some('T')).then_some(()));
        Frozen(pid)
    }

    pub fn thaw(self) {}
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // It may have been killed meanwhile, which works on a stopped process too.
        let _ = Command::new("kill").args(["-CONT", &self.0.to_string()]).output();
    }
}

/// Processes that work in this folder, or were started with its name.
pub(crate) fn living_in(folder: &Path) -> Vec<u32> {
    numbers().filter(|pid| *pid != std::process::id() && belongs_to(*pid, folder)).collect()
}

fn belongs_to(pid: u32, folder: &Path) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let works_there = std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    let name = folder.as_os_str().as_encoded_bytes();
    let named = |words: &[u8]| words.windows(name.len()).any(|part| part == name);
    works_there || std::fs::read(process.join("cmdline")).is_ok_and(|words| named(&words))
}
