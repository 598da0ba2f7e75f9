//! Everything that can be done before the step may start, so that `go` only has to claim and fork.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use protocol::folder::{FolderSpec, FromRunner, RunnerPhase, Status, Tally};

use crate::caretaker;
use crate::control::Control;
use crate::folder_io::{self, FolderError, cannot};
use crate::guard::Guard;
use crate::notes;
use crate::program::{Image, ImageError};
use crate::record::Record;
use crate::spool::{Limits, Spool};
use crate::sys;
use crate::tree::Helpers;

/// The runner's working set, complete before it says `ready`.
pub(crate) struct Desk {
    pub(crate) spec: FolderSpec,
    /// The attempt's folder, absolute; it is the current folder as well.
    pub(crate) root: PathBuf,
    pub(crate) record: Record,
    pub(crate) spool: Spool,
    pub(crate) control: Control,
    pub(crate) signals: OwnedFd,
    /// The process of a caretaker that this runner started.
    pub(crate) caretaker: Option<i32>,
    /// While a step lives that ends with its lease.
    pub(crate) guard: Option<Guard>,
    /// If the step cannot be started, `go` is the time to say so.
    pub(crate) image: Result<Image, ImageError>,
}

impl Desk {
    pub(crate) fn prepare(folder: &Path) -> Result<Self, FolderError> {
        std::env::set_current_dir(folder).map_err(cannot("enter the attempt folder"))?;
        let root = std::env::current_dir().map_err(cannot("find the attempt folder"))?;
        // Fails only for a process that leads its session already, which is as good.
        let _ = rustix::process::setsid();
        let record = Record::open()?;
        let spec = folder_io::read_spec(Path::new("."))?;
        let signals = sys::signal_descriptor().map_err(cannot("set up signals"))?;
        // Strays that leave the step's group come to us when their parent dies.
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own)).map_err(|errno| cannot("become subreaper")(errno.into()))?;
        let limits = Limits { lines: spec.local.log_lines_max, bytes: spec.local.log_bytes_max };
        let spool = Spool::new(limits);
        let image = Image::build(&root, &spec);
        let control = Control::open()?;
        Ok(Desk { spec, root, record, spool, control, signals, caretaker: None, guard: None, image })
    }

    pub(crate) fn wake_caretaker(&mut self) {
        let Some(seat) = &self.spec.local.caretaker else { return };
        match caretaker::wake(seat, &self.spec.local.base_env) {
            Ok(started) => self.caretaker = started.or(self.caretaker),
            Err(error) => notes::write(&format!("cannot start a caretaker: {error}")),
        }
    }

    pub(crate) fn helpers(&self) -> Helpers {
        [self.caretaker, self.guard.as_ref().map(Guard::pid)]
    }

    /// Whether the process that has ended was one of them.
    pub(crate) fn forget_helper(&mut self, pid: i32) -> bool {
        let caretaker = self.caretaker.take_if(|caretaker| *caretaker == pid).is_some();
        let guard = self.guard.take_if(|guard| guard.pid() == pid).is_some();
        caretaker || guard
    }

    /// Writes the log so far and brings the counts up to date.
    pub(crate) fn flush_log(&mut self) {
        self.spool.flush();
        let (dropped_lines, lost_lines) = (self.spool.dropped_lines(), self.spool.lost_lines());
        self.record.set_tally(Tally { dropped_lines, lost_lines, ..self.record.tally() });
    }

    pub(crate) fn log_hint(&self) -> FromRunner {
        FromRunner::Log {
            first_seq: self.spool.first_seq(),
            last_seq: self.spool.last_seq(),
            bytes: self.spool.written_bytes(),
        }
    }

    pub(crate) fn status(&self, phase: RunnerPhase) -> FromRunner {
        let Tally { pid, start_time, dropped_lines, lost_lines } = self.record.tally();
        FromRunner::Status {
            status: Status {
                phase,
                runner_pid: std::process::id(),
                pid,
                start_time,
                last_seq: self.spool.last_seq(),
                log_bytes: self.spool.written_bytes(),
                dropped_lines,
                lost_lines,
            },
        }
    }
}
