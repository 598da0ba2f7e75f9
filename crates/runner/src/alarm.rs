//! Wakes the runner at a time on the clock that runs on while the machine sleeps, as soon as it is awake again.
//!
//! `poll` alone measures on a clock that stands still meanwhile. A lease cannot wait for that.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

pub(crate) struct Alarm {
    timer: OwnedFd,
    set_to: Option<Duration>,
}

impl Alarm {
    /// `None` where the kernel has no such timer: `poll` has to do.
    pub(crate) fn new() -> Option<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Boottime, flags).ok()?;
        Some(Alarm { timer, set_to: None })
    }

    /// Rings at `at` or, if that is past, at once. It falls silent when it is set anew.
    pub(crate) fn set(&mut self, at: Option<Duration>) {
        if self.set_to == at {
            return;
        }
        // All zeros would turn it off.
        let at_or_off = at.map_or(Duration::ZERO, |at| at.max(Duration::from_nanos(1)));
        let value = Timespec {
            tv_sec: i64::try_from(at_or_off.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(at_or_off.subsec_nanos()),
        };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // It cannot fail with a timer of our own and a time that is one.
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec);
        self.set_to = at;
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
