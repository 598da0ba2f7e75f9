//! Waiting for whatever comes first.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

/// `poll` measures on a clock that stops while the machine sleeps, deadlines do not. So it never waits longer than this.
const SLEEP_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Listener,
    Peer,
    Signals,
    Alarm,
    Stdout,
    Stderr,
}

#[derive(Default)]
pub(crate) struct PollSet<'a> {
    fds: Vec<PollFd<'a>>,
    sources: Vec<Source>,
}

impl<'a> PollSet<'a> {
    pub(crate) fn read(&mut self, source: Source, fd: BorrowedFd<'a>) {
        self.add(source, fd, PollFlags::IN);
    }

    pub(crate) fn read_and_write(&mut self, source: Source, fd: BorrowedFd<'a>) {
        self.add(source, fd, PollFlags::IN | PollFlags::OUT);
    }

    fn add(&mut self, source: Source, fd: BorrowedFd<'a>, flags: PollFlags) {
        self.fds.push(PollFd::from_borrowed_fd(fd, flags));
        self.sources.push(source);
    }

    /// Returns when a source is ready, or after `patience` at the latest. It may return early with nothing.
    pub(crate) fn wait(mut self, patience: Option<Duration>) -> Ready {
        let timeout = patience.map(|patience| {
            let patience = patience.min(SLEEP_MAX);
            Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) }
        });
        let mut ready = Ready(0);
        if rustix::event::poll(&mut self.fds, timeout.as_ref()).is_ok() {
            for (fd, source) in self.fds.iter().zip(&self.sources) {
                if !fd.revents().is_empty() {
                    ready.0 |= 1 << *source as u8;
                }
            }
        }
        ready
    }
}

/// The sources that have something to say, an error or an end included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready(u8);

impl Ready {
    pub(crate) fn has(self, source: Source) -> bool {
        self.0 & (1 << source as u8) != 0
    }
}
