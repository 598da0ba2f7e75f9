//! Starting the step's process.
//!
//! A plain fork, because the child needs settings that survive only there: its own group, a cgroup from birth, and a
//! death signal for the case that the runner is killed. The runner is small, so a fork is cheap.

use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::pipe::{PipeFlags, pipe_with};
use thiserror::Error;

use crate::cgroup::Cgroup;
use crate::notes;
use crate::program::Image;
use crate::sys;

/// Room for a burst while the runner writes to a slow disk. The default is 64 KiB.
const PIPE_BYTES: usize = 1024 * 1024;
/// Linux has so many signals, from 1.
const SIGNALS: i32 = 64;
/// What the shell says as well; seen only if the error pipe is lost.
const EXEC_FAILED_CODE: i32 = 127;

/// The step's process, leader of its own group.
pub(crate) struct Child {
    pub(crate) pid: i32,
    /// Read ends, non-blocking.
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) cgroup: Option<Cgroup>,
}

#[derive(Debug, Error)]
pub(crate) enum SpawnError {
    #[error("the step's pipes cannot be made: {0}")]
    Pipe(#[source] io::Error),
    #[error("a process cannot be started: {0}")]
    Fork(#[source] io::Error),
    #[error("the working folder {folder} cannot be entered: {source}")]
    Folder { folder: String, source: io::Error },
    #[error("{}", explain_exec(.program, .source))]
    Exec { program: String, source: io::Error },
    #[error("the step's process cannot be set up: {0}")]
    Setup(#[source] io::Error),
}

pub(crate) fn spawn(image: &Image, cgroup_path: Option<&Path>) -> Result<Child, SpawnError> {
    let (stdout, child_stdout) = output_pipe().map_err(SpawnError::Pipe)?;
    let (stderr, child_stderr) = output_pipe().map_err(SpawnError::Pipe)?;
    let (report, child_report) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| SpawnError::Pipe(errno.into()))?;
    let arguments = pointers(&image.arguments);
    let environment = pointers(&image.environment);
    let plan = ChildPlan {
        runner: rustix::process::getpid().as_raw_nonzero().get(),
        stdout: child_stdout.as_raw_fd(),
        stderr: child_stderr.as_raw_fd(),
        report: child_report.as_raw_fd(),
        folder: &image.folder,
        program: &image.program,
        arguments: &arguments,
        environment: &environment,
    };
    let (pid, cgroup) = fork(&plan, cgroup_path).map_err(SpawnError::Fork)?;
    drop((child_stdout, child_stderr, child_report));
    match read_report(report) {
        None => Ok(Child { pid, stdout, stderr, cgroup }),
        Some(report) => {
            let _ = sys::reap(pid);
            if let Some(cgroup) = cgroup {
                let _ = cgroup.remove();
            }
            Err(explain(report, image))
        }
    }
}

/// In a cgroup where one can be had, without one otherwise. There is one already where something of the step is stuck in
/// the kernel, and its cleanup begins.
fn fork(plan: &ChildPlan<'_>, cgroup_path: Option<&Path>) -> io::Result<(i32, Option<Cgroup>)> {
    if let Some(cgroup) = cgroup_path.and_then(|path| Cgroup::create(path).ok().or_else(|| Cgroup::open(path))) {
        match cgroup.descriptor().and_then(|descriptor| fork_once(plan, Some(descriptor.as_fd()))) {
            Ok(pid) => return Ok((pid, Some(cgroup))),
            Err(error) => {
                notes::write(&format!("no cgroup for this step: {error}"));
                let _ = cgroup.remove();
            }
        }
    }
    Ok((fork_once(plan, None)?, None))
}

fn fork_once(plan: &ChildPlan<'_>, cgroup: Option<BorrowedFd<'_>>) -> io::Result<i32> {
    // SAFETY: the runner has one thread, and the child goes straight to `become_step`, which keeps the rules.
    unsafe {
        match sys::fork_into(cgroup)? {
            0 => become_step(plan),
            pid => Ok(pid),
        }
    }
}

/// All that the child needs; nothing in it is allocated or freed after the fork.
struct ChildPlan<'a> {
    runner: i32,
    stdout: RawFd,
    stderr: RawFd,
    report: RawFd,
    folder: &'a CStr,
    program: &'a CStr,
    arguments: &'a [*const c_char],
    environment: &'a [*const c_char],
}

/// How far the child came; the first byte of its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    Setup = 1,
    Folder = 2,
    Exec = 3,
}

/// Runs in the child between fork and exec. Standard input is `/dev/null` already.
///
/// # Safety
/// Only system calls that are safe after a fork; no allocation, no locks, no return.
unsafe fn become_step(plan: &ChildPlan<'_>) -> ! {
    // SAFETY: the pointers in the plan are valid and NUL-terminated; the arrays end with a null pointer.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != plan.runner {
            // The runner died before the death signal was armed.
            libc::_exit(EXEC_FAILED_CODE);
        }
        if libc::dup2(plan.stdout, 1) < 0 || libc::dup2(plan.stderr, 2) < 0 {
            fail(plan.report, Stage::Setup);
        }
        reset_signals();
        if libc::chdir(plan.folder.as_ptr()) < 0 {
            fail(plan.report, Stage::Folder);
        }
        libc::execve(plan.program.as_ptr(), plan.arguments.as_ptr(), plan.environment.as_ptr());
        fail(plan.report, Stage::Exec)
    }
}

/// Ignored signals and the mask would otherwise be inherited through exec.
unsafe fn reset_signals() {
    // SAFETY: both calls only change this process's own signal state. All zeros is the kernel's own layout of "default,
    // no flags, empty mask"; libc's door is closed for the two signals that it keeps for itself.
    unsafe {
        let default = [0_u64; 4];
        let none = 0_u64;
        for signal in 1..=SIGNALS {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null::<u64>(),
                size_of_val(&none),
            );
        }
        let set = libc::SIG_SETMASK;
        libc::syscall(libc::SYS_rt_sigprocmask, set, &raw const none, std::ptr::null::<u64>(), size_of_val(&none));
    }
}

unsafe fn fail(report: RawFd, stage: Stage) -> ! {
    // SAFETY: errno is read right after the call that failed; the buffer outlives the write.
    unsafe {
        let [a, b, c, d] = (*libc::__errno_location()).to_le_bytes();
        let bytes = [stage as u8, a, b, c, d];
        libc::write(report, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(EXEC_FAILED_CODE)
    }
}

/// Blocks until the child has become the step (the pipe closes with exec) or says why it could not.
fn read_report(report: OwnedFd) -> Option<(u8, io::Error)> {
    let mut bytes = [0; 5];
    File::from(report).read_exact(&mut bytes).ok()?;
    let [stage, a, b, c, d] = bytes;
    Some((stage, io::Error::from_raw_os_error(i32::from_le_bytes([a, b, c, d]))))
}

fn explain((stage, source): (u8, io::Error), image: &Image) -> SpawnError {
    let text = |text: &CStr| text.to_string_lossy().into_owned();
    if stage == Stage::Exec as u8 {
        SpawnError::Exec { program: text(&image.program), source }
    } else if stage == Stage::Folder as u8 {
        SpawnError::Folder { folder: text(&image.folder), source }
    } else {
        SpawnError::Setup(source)
    }
}

fn explain_exec(program: &str, source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::ENOENT) => {
            format!("program `{program}` was not found, or the interpreter in its first line was not")
        }
        Some(libc::EACCES) => format!("program `{program}` may not be executed: is it a file with the x bit set?"),
        Some(libc::ENOEXEC) => {
            format!("program `{program}` is neither a binary for this machine nor a script that begins with `#!`")
        }
        Some(libc::E2BIG) => format!("the arguments and the environment of `{program}` are too large for the system"),
        _ => format!("program `{program}` cannot be executed: {source}"),
    }
}

fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    // Refused when the user has too many large pipes; the default size works too.
    let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE_BYTES);
    Ok((reader, writer))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}
