//! The guard: keeps a binding lease for a runner that no longer can, because it was killed or is frozen.
//!
//! One for each step that ends with its lease, forked by the runner before the step, so that there is no step without
//! its guard. It sleeps on a pipe whose other end only the runner has, and on the lease's end as the record tells it.
//! If the pipe closes, the runner is dead; if the lease is over, the runner had its chance. In both cases the guard
//! kills what the worker would kill as well. A runner whose step is over ends its guard.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use protocol::folder::{FolderSpec, RECORD_FILE, Tally};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin, stdout};

use crate::alarm::Alarm;
use crate::clock;
use crate::fence;
use crate::folder_io;
use crate::life::sentry::Sentry;
use crate::poll::{PollSet, Source};
use crate::remains::{self, Remains};
use crate::sys;

/// What `ps` and `top` show.
const NAME: &std::ffi::CStr = c"bowline-guard";
/// Between two looks at what was sent KILL. It grows, since a process that is stuck in the kernel may take its time.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The runner's side. If it is dropped the guard takes the runner for dead, which is right in a panic.
pub(crate) struct Guard {
    pid: i32,
    _line: OwnedFd,
}

impl Guard {
    /// `ends_at`: the end of the lease, until the record names a later one.
    pub(crate) fn start(spec: &FolderSpec, ends_at: Duration) -> io::Result<Self> {
        let (reader, line) = pipe_with(PipeFlags::CLOEXEC)?;
        // Opened now: the guard serves also when somebody deletes the folder.
        let record = File::open(RECORD_FILE)?;
        // SAFETY: the runner has one thread.
        match unsafe { sys::fork() }? {
            0 => become_guard(reader, record, spec, ends_at),
            pid => Ok(Guard { pid, _line: line }),
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The step is over, or never began. Not by a word through the pipe: this way it is gone for certain.
    pub(crate) fn dismiss(self) {
        sys::kill_process(self.pid);
        let _ = sys::reap(self.pid);
    }
}

/// In the child. Everything that it has on its stack is the runner's, so it must neither return nor unwind.
fn become_guard(line: OwnedFd, record: File, spec: &FolderSpec, ends_at: Duration) -> ! {
    let kept = catch_unwind(AssertUnwindSafe(|| {
        let record = settle(line, record)?;
        wait_for_need(&record, ends_at);
        clear(&record, spec);
        io::Result::Ok(())
    }));
    sys::exit_at_once(if matches!(kept, Ok(Ok(()))) { 0 } else { 1 })
}

/// Away from everything of the runner's but the pipe, which becomes standard input, and the record as it was opened for the
/// guard. Above all from the runner's own record: a copy of that descriptor would keep the lock of a dead runner.
fn settle(line: OwnedFd, record: File) -> io::Result<File> {
    // The runner's own standard input is `/dev/null` by now.
    dup2_stderr(stdin())?;
    dup2_stdin(&line)?;
    dup2_stdout(&record)?;
    // Closed with the rest, and not once more.
    std::mem::forget((line, record));
    sys::close_all_but_standard()?;
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(NAME);
    Ok(stdout().try_clone_to_owned()?.into())
}

/// Returns when the runner is dead, or its lease is over and nobody has renewed it.
fn wait_for_need(record: &File, ends_at: Duration) {
    let mut sentry = Sentry::new(ends_at);
    let mut alarm = Alarm::new();
    let mut runner_lives = true;
    let ask = || fence::check_record(|| folder_io::read_open_record(record));
    loop {
        let now = clock::boot_now();
        let Some(until) = sentry.turn(runner_lives, now, ask) else { return };
        if let Some(alarm) = &mut alarm {
            alarm.set(Some(until));
        }
        let mut set = PollSet::default();
        set.read(Source::Peer, stdin());
        if let Some(alarm) = &alarm {
            set.read(Source::Alarm, alarm.descriptor());
        }
        // Nobody ever writes: the pipe has something to say only when it is closed.
        runner_lives = !set.wait(Some(until.saturating_sub(now))).has(Source::Peer);
    }
}

fn clear(record: &File, spec: &FolderSpec) {
    let mut pause = PAUSE_FIRST;
    while remains::kill(spec, tally(record)) == Remains::Dying {
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// `None` if the runner did not come to write down its child, which then died with it.
fn tally(record: &File) -> Option<Tally> {
    folder_io::read_open_record(record).ok()?.tally
}
