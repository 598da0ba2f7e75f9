//! Everything that can be done before the step may start, so that `go` only has to claim and fork.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use protocol::folder::{CLEANUP_FILE, FolderSpec, FromRunner, RunnerPhase, SCRIPT_FILE, Status, Tally};
use protocol::log::{LINE_BYTES_MAX, LineEnd, Stream};
use protocol::secret::SecretValues;

use crate::caretaker;
use crate::clock;
use crate::control::Control;
use crate::folder_io::{self, FolderError, cannot};
use crate::guard::Guard;
use crate::mask::Mask;
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
    /// The same for its cleanup, if it has one, which may never have its turn.
    pub(crate) cleanup: Option<Result<Image, ImageError>>,
    /// What nobody may see of what the step says; from `go` on, if it has secrets.
    pub(crate) mask: Option<Rc<Mask>>,
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
        let image = Image::build(&root, &spec, &spec.attempt.program, SCRIPT_FILE);
        let cleanup = spec.attempt.cleanup.as_ref();
        let cleanup = cleanup.map(|cleanup| Image::build(&root, &spec, &cleanup.program, CLEANUP_FILE));
        let control = Control::open()?;
        let (caretaker, guard, mask) = (None, None, None);
        Ok(Desk { spec, root, record, spool, control, signals, caretaker, guard, image, cleanup, mask })
    }

    /// The step is given these, and its log does not show them. So is its cleanup.
    pub(crate) fn equip(&mut self, secrets: &SecretValues) {
        self.mask = Mask::new(secrets);
        for image in [&mut self.image].into_iter().chain(&mut self.cleanup) {
            if let Ok(ready) = image
                && let Err(error) = ready.add_secrets(secrets)
            {
                *image = Err(error);
            }
        }
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

    /// A line of our own in the step's log. Not its data, so it stands where complaints do.
    pub(crate) fn note(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(LINE_BYTES_MAX)];
        self.spool.push(clock::wall_us(), Stream::Stderr, LineEnd::Newline, text.as_bytes());
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
