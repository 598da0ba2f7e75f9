//! A host's disk and processes as the worker's code looks at them: the product's questions, answered from the simulation.

use std::io::{self, ErrorKind};
use std::time::Duration;

use protocol::attempt::Ticket;
use protocol::folder::{Claim, ExitError, FolderSpec, Tally};
use protocol::link::MissingCause;
use protocol::log::Span;
use runner::folder_io::{FolderError, Recorded};
use runner::remains::Remains;
use serde_json::Value;
use worker::adopt::{self, DYING_PAUSE, Examined, NotedLoss, Orphans, examine, look_at_kept};
use worker::agent::Found;
use worker::ship::{Logs, Piece};

use crate::disk::{Disk, Folder};
use crate::hosts::Host;

/// Lines of one piece: a few, so that windows and acknowledgements have something to do.
const PIECE_LINES_MAX: usize = 40;

/// One attempt's folder, with the processes that belong to it.
pub(crate) struct Attic<'a> {
    pub host: &'a mut Host,
    pub ticket: Ticket,
}

impl Attic<'_> {
    fn works(&self) -> Result<(), FolderError> {
        let error = || FolderError::Io { what: "read", source: ErrorKind::Other.into() };
        if self.host.disk.broken { Err(error()) } else { Ok(()) }
    }

    fn folder(&mut self) -> Result<&mut Folder, FolderError> {
        self.works()?;
        let missing = || FolderError::Io { what: "read the spec", source: ErrorKind::NotFound.into() };
        self.host.disk.attempts.get_mut(&self.ticket).ok_or_else(missing)
    }

    /// KILL is sent now; the world sees to it that they die.
    fn doom(&mut self, with_runner: bool) -> Remains {
        let runner = self.host.disk.attempts.get(&self.ticket).and_then(|folder| folder.runner);
        if self.host.beside.is_some() {
            // The numbers in a copy's records are those of the original's processes.
            self.host.doomed_beside.push(self.ticket);
        }
        self.host.doom(self.ticket, runner.filter(|_| with_runner))
    }
}

impl adopt::Folder for Attic<'_> {
    fn read_spec(&mut self) -> Result<FolderSpec, FolderError> {
        let folder = self.folder()?;
        if folder.hollow {
            return serde_json::from_str("").map_err(FolderError::BadSpec);
        }
        Ok(folder.spec.clone())
    }

    /// It is small, was just written, and is in memory: it can be read even where nothing else can.
    fn glimpse_spec(&mut self) -> Value {
        let folder = self.host.disk.attempts.get(&self.ticket);
        let folder = folder.filter(|folder| !folder.hollow);
        folder.and_then(|folder| serde_json::to_value(&folder.spec).ok()).unwrap_or_default()
    }

    fn runner_lives(&mut self) -> Result<bool, FolderError> {
        self.works()?;
        Ok(self.folder().is_ok_and(|folder| folder.runner.is_some()))
    }

    fn read_claim(&mut self) -> Result<Option<Claim>, FolderError> {
        self.works()?;
        Ok(self.folder().ok().and_then(|folder| folder.claim))
    }

    fn claim_void(&mut self) -> Result<Claim, FolderError> {
        self.folder().map(|folder| folder.claim(Claim::Void, true))
    }

    fn read_record(&mut self) -> Result<Recorded, FolderError> {
        let folder = self.folder()?;
        if folder.torn { Err(FolderError::Exit(ExitError::Torn)) } else { Ok(folder.recorded()) }
    }

    fn read_loss(&mut self) -> Option<NotedLoss> {
        self.folder().ok().and_then(|folder| folder.loss.clone())
    }

    fn write_loss(&mut self, loss: &NotedLoss) -> io::Result<()> {
        if self.host.disk.full {
            return Err(ErrorKind::StorageFull.into());
        }
        if self.host.disk.broken {
            return Err(ErrorKind::Other.into());
        }
        if let Ok(folder) = self.folder() {
            folder.note_loss(loss.clone());
        }
        Ok(())
    }

    fn kill_remains(&mut self, _spec: &FolderSpec, _tally: Option<Tally>) -> Remains {
        self.doom(false)
    }

    fn kill_with_runner(&mut self, _spec: &FolderSpec, _tally: Option<Tally>) -> Result<Remains, FolderError> {
        Ok(self.doom(true))
    }

    fn orphans(&mut self) -> Orphans {
        self.host.orphans(self.ticket)
    }

    fn is_inhabited(&mut self) -> bool {
        self.host.runner_of(self.ticket).is_some() || self.host.groups.contains_key(&self.ticket)
    }

    fn kill_orphans(&mut self, with_runner: bool) {
        if self.host.orphans(self.ticket) != Orphans::NONE {
            let runner = self.host.runner_of(self.ticket);
            self.host.doom(self.ticket, runner.filter(|_| with_runner));
        }
    }

    fn log_bounds(&mut self) -> io::Result<Option<Span>> {
        if self.host.disk.broken {
            return Err(ErrorKind::Other.into());
        }
        let log = self.folder().ok().map(|folder| &folder.log);
        Ok(log.filter(|log| log.last() > 0).map(|log| Span { first_seq: log.first(), last_seq: log.last() }))
    }
}

/// What a worker that starts finds. What dies meanwhile is waited for, as far as a worker waits.
pub(crate) fn scan(host: &mut Host, rebooted: bool, boot_now: Duration) -> Vec<Found> {
    let tickets: Vec<Ticket> = host.disk.attempts.keys().copied().collect();
    tickets.into_iter().filter_map(|ticket| scan_one(host, ticket, rebooted, boot_now)).collect()
}

/// The same for what was put away, and lies with the others again.
pub(crate) fn scan_kept(host: &mut Host, ticket: Ticket, boot_now: Duration) -> Option<Found> {
    let kept = look_at_kept(&mut Attic { host: &mut *host, ticket }, boot_now);
    kept.or_else(|| scan_one(host, ticket, false, boot_now))
}

fn scan_one(host: &mut Host, ticket: Ticket, rebooted: bool, boot_now: Duration) -> Option<Found> {
    let mut waited = Duration::ZERO;
    loop {
        let mut attic = Attic { host: &mut *host, ticket };
        match examine(&mut attic, ticket.attempt, rebooted, waited, boot_now) {
            Examined::Found(found) => return Some(*found),
            Examined::Dying => waited += DYING_PAUSE,
            Examined::HalfMade => {
                host.disk.attempts.remove(&ticket);
                return None;
            }
        }
    }
}

/// The logs of a disk, to be shipped.
pub(crate) struct LogShelf<'a>(pub &'a Disk);

impl Logs for LogShelf<'_> {
    type Cursor = ();

    fn read(
        &mut self,
        ticket: Ticket,
        next_seq: u64,
        _cursor: &mut (),
        _buffer: &mut Vec<u8>,
    ) -> io::Result<Option<Piece>> {
        if self.0.broken {
            return Err(ErrorKind::Other.into());
        }
        let named = self.0.ticket_of(ticket.attempt);
        let Some(folder) = named.and_then(|named| self.0.attempts.get(&named)) else { return Ok(None) };
        let Some((first_seq, last_seq, blocks)) = folder.log.block_after(next_seq - 1, PIECE_LINES_MAX) else {
            return Ok(None);
        };
        let dropped = first_seq <= folder.log.dropped_to + 1 && first_seq > next_seq;
        let cause = if dropped { MissingCause::Limit } else { MissingCause::Unwritten };
        let cause = if first_seq == next_seq { MissingCause::default() } else { cause };
        Ok(Some(Piece { span: Span { first_seq, last_seq }, blocks, cause }))
    }
}
