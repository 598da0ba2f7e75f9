//! The few system calls for which neither std nor rustix has a safe door. All `unsafe` of the crate is here and in `child`,
//! but for the forks of the nursery and of the guard.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// From `linux/sched.h`; libc declares it too narrow.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Takes SIGCHLD, SIGTERM and SIGINT out of the usual delivery; they are read from the returned descriptor.
pub(crate) fn signal_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before use; the descriptor is new and owned by nobody else.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        check(libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()))?;
        let fd = check(libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// The number of the next pending signal, if there is one.
pub(crate) fn next_signal(descriptor: BorrowedFd<'_>) -> Option<i32> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the kernel writes at most `size` bytes; the struct is read only if it wrote them all.
    unsafe {
        let read = libc::read(descriptor.as_raw_fd(), info.as_mut_ptr().cast(), size);
        (read == size as isize).then(|| info.assume_init().ssi_signo as i32)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Children {
    /// This one has ended and waits to be reaped.
    Ended(i32),
    AllRunning,
    None,
}

/// Looks for an ended child without reaping it, so that its number stays taken.
pub(crate) fn look_at_children() -> Children {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: siginfo_t is plain data, and all zeros is a valid value that waitid leaves when nobody has ended.
    unsafe {
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) != 0 {
            return Children::None;
        }
        match info.assume_init().si_pid() {
            0 => Children::AllRunning,
            pid => Children::Ended(pid),
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Exited(i32),
    Signaled(i32),
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) memory_bytes_max: u64,
}

impl Usage {
    pub(crate) fn add(&mut self, other: Usage) {
        self.cpu += other.cpu;
        self.memory_bytes_max = self.memory_bytes_max.max(other.memory_bytes_max);
    }
}

/// Reaps a child that has ended.
pub(crate) fn reap(pid: i32) -> io::Result<(Fate, Usage)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for the call, and rusage is plain data.
    let usage = unsafe {
        check(libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()))?;
        usage.assume_init()
    };
    let fate = if libc::WIFSIGNALED(status) {
        Fate::Signaled(libc::WTERMSIG(status))
    } else {
        Fate::Exited(libc::WEXITSTATUS(status))
    };
    let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
    let memory_bytes_max = usage.ru_maxrss.unsigned_abs().saturating_mul(1024);
    Ok((fate, Usage { cpu, memory_bytes_max }))
}

/// Signals a process group. A group that is gone already is no error.
pub(crate) fn kill_group(leader: i32, signal: i32) {
    assert!(leader > 1, "group {leader} is not a step's group");
    // SAFETY: kill has no memory effects.
    unsafe { libc::kill(-leader, signal) };
}

pub(crate) fn kill_process(pid: i32) {
    assert!(pid > 1, "process {pid} is not a step's process");
    // SAFETY: kill has no memory effects.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Forks, directly into `cgroup` if there is one: moving a running process costs milliseconds. 0 is the child.
///
/// # Safety
/// As with `fork`: until exec the child may only do what is allowed in a signal handler.
pub(crate) unsafe fn fork_into(cgroup: Option<BorrowedFd<'_>>) -> io::Result<i32> {
    // SAFETY: all zeros is a valid value of this plain struct.
    let mut arguments: libc::clone_args = unsafe { MaybeUninit::zeroed().assume_init() };
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: without CLONE_VM this is a fork; the caller keeps the child within its bounds.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>()) };
    match check(pid as i32) {
        // Older kernels and some sandboxes do not have it.
        // SAFETY: as above.
        Err(error) if cgroup.is_none() && error.raw_os_error() == Some(libc::ENOSYS) => check(unsafe { libc::fork() }),
        result => result,
    }
}

/// Forks a child that may do anything. 0 is the child.
///
/// # Safety
/// The process has one thread: a lock that another one holds would stay locked in the child.
pub(crate) unsafe fn fork() -> io::Result<i32> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::fork() })
}

/// Children that end are gone at once, with nobody to reap them and nothing to know about them.
pub(crate) fn leave_children_to_the_kernel() {
    // SAFETY: no handler is involved.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Children that end wait to be reaped, as usual.
pub(crate) fn keep_children() {
    // SAFETY: no handler is involved.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Closes all descriptors but the three standard ones, whoever thinks that he owns them.
pub(crate) fn close_all_but_standard() -> io::Result<()> {
    // SAFETY: the caller is a forked child that uses none of them any more, and does not return to who would.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } == 0 {
        return Ok(());
    }
    // Kernels before 5.9. The list's own descriptor is closed when the list is complete.
    let entries = std::fs::read_dir("/proc/self/fd")?;
    let open: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: as above.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Ends a forked child, with nothing of what its parent would do at its own end.
pub(crate) fn exit_at_once(code: i32) -> ! {
    // SAFETY: it does not return, and touches no memory.
    unsafe { libc::_exit(code) }
}

/// No descriptor but the three standard ones is inherited by what we execute.
pub(crate) fn keep_descriptors_to_ourselves() {
    // SAFETY: only a flag of descriptors changes, none is opened or closed. Kernels before 5.11 refuse, and nothing
    // happens. By number, since not every libc has the call.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_usec.unsigned_abs() as u32 * 1000)
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
