//! A job outlives the terminal and may run on another machine, so a step's stdin is closed. Whoever pipes something
//! into `exec` should hear that, and nothing is ever read from there.

use std::io::{self, IsTerminal};

use rustix::fs::{FileType, SeekFrom, fstat, major, minor, seek};
use rustix::io::ioctl_fionread;

use crate::print::say;

/// The kernel's numbers for `/dev/null`.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// Says once that stdin is not passed on, if there is something on it.
#[derive(Debug, Default)]
pub(crate) struct StdinNotice {
    told: bool,
}

impl StdinNotice {
    /// To be called again later: the other end of a pipe may need a moment.
    pub(crate) fn look(&mut self) {
        if !self.told && has_something() {
            self.told = true;
            say("bowline: what is on stdin is not passed on: a step's stdin is closed");
        }
    }
}

/// What cannot be told is taken for nothing: this is about a hint.
fn has_something() -> bool {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return false;
    }
    let Ok(stat) = fstat(&stdin) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            seek(&stdin, SeekFrom::Current(0)).is_ok_and(|at| at < size)
        }
        FileType::CharacterDevice => (major(stat.st_rdev), minor(stat.st_rdev)) != NULL_DEVICE,
        FileType::Fifo | FileType::Socket => ioctl_fionread(&stdin).is_ok_and(|bytes| bytes > 0),
        _ => false,
    }
}
