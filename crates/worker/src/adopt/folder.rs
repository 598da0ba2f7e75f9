//! An attempt's folder, as far as a worker looks into it: the real one, and whatever stands for it in a simulation.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use protocol::folder::{Claim, FolderSpec, SPEC_FILE, Tally};
use protocol::link::Loss;
use protocol::log::Span;
use runner::folder_io::{self, FolderError, Recorded};
use runner::remains::{self, Remains};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::orphans::{self, Orphans};
use crate::agent::Finding;
use crate::ship;

/// Written when a reboot or the end of its lease took the step: later looks could not tell that any more.
const LOSS_FILE: &str = "loss.json";

/// What a look needs of a folder. Each call is one look at the disk: what one says may be over with the next.
pub trait Folder {
    fn read_spec(&mut self) -> Result<FolderSpec, FolderError>;
    /// Whatever can be made of a spec that this version cannot read; null if nothing.
    fn glimpse_spec(&mut self) -> Value;
    /// Whether somebody holds the record's lock.
    fn runner_lives(&mut self) -> Result<bool, FolderError>;
    fn read_claim(&mut self) -> Result<Option<Claim>, FolderError>;
    /// Tries to be the first to say, durably, that it never starts. What holds now; an error if the folder was deleted.
    fn claim_void(&mut self) -> Result<Claim, FolderError>;
    fn read_record(&mut self) -> Result<Recorded, FolderError>;
    fn read_loss(&mut self) -> Option<NotedLoss>;
    /// Durably.
    fn write_loss(&mut self, loss: &NotedLoss) -> io::Result<()>;
    /// KILL to what a dead runner left of its step.
    fn kill_remains(&mut self, spec: &FolderSpec, tally: Option<Tally>) -> Remains;
    /// The same for a step whose runner lives but does not act: both are killed.
    fn kill_with_runner(&mut self, spec: &FolderSpec, tally: Option<Tally>) -> Result<Remains, FolderError>;
    /// Who lives in it although it was deleted: no record leads to them.
    fn orphans(&mut self) -> Orphans;
    /// Whether anybody lives in it, where it is there.
    fn is_inhabited(&mut self) -> bool;
    /// KILL to its step among them, and to its runner if that is meant as well.
    fn kill_orphans(&mut self, with_runner: bool);
    /// The first and last line of its log; `None` if there are no lines.
    fn log_bounds(&mut self) -> io::Result<Option<Span>>;
}

/// What took a step, once that is certain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedLoss {
    pub loss: Loss,
    pub detail: String,
}

impl From<NotedLoss> for Finding {
    fn from(NotedLoss { loss, detail }: NotedLoss) -> Self {
        Finding::Lost { loss, detail }
    }
}

/// The folder at this path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnDisk<'a>(pub(crate) &'a Path);

impl Folder for OnDisk<'_> {
    fn read_spec(&mut self) -> Result<FolderSpec, FolderError> {
        folder_io::read_spec(self.0)
    }

    fn glimpse_spec(&mut self) -> Value {
        let json = fs::read(self.0.join(SPEC_FILE)).ok();
        json.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
    }

    fn runner_lives(&mut self) -> Result<bool, FolderError> {
        folder_io::runner_lives(self.0)
    }

    fn read_claim(&mut self) -> Result<Option<Claim>, FolderError> {
        folder_io::read_claim(self.0)
    }

    fn claim_void(&mut self) -> Result<Claim, FolderError> {
        folder_io::claim(self.0, Claim::Void, true)
    }

    fn read_record(&mut self) -> Result<Recorded, FolderError> {
        folder_io::read_record(self.0)
    }

    fn read_loss(&mut self) -> Option<NotedLoss> {
        let json = fs::read(self.0.join(LOSS_FILE)).ok()?;
        serde_json::from_slice(&json).ok()
    }

    fn write_loss(&mut self, noted: &NotedLoss) -> io::Result<()> {
        let temporary = self.0.join(format!("{LOSS_FILE}.new"));
        let json = serde_json::to_vec(noted).expect("it is plain data and always has a JSON form");
        fs::write(&temporary, json)?;
        File::open(&temporary)?.sync_all()?;
        fs::rename(temporary, self.0.join(LOSS_FILE))?;
        File::open(self.0)?.sync_all()
    }

    fn kill_remains(&mut self, spec: &FolderSpec, tally: Option<Tally>) -> Remains {
        remains::kill(spec, tally)
    }

    fn kill_with_runner(&mut self, spec: &FolderSpec, tally: Option<Tally>) -> Result<Remains, FolderError> {
        remains::kill_with_runner(self.0, spec, tally)
    }

    fn orphans(&mut self) -> Orphans {
        orphans::of(self.0)
    }

    fn is_inhabited(&mut self) -> bool {
        orphans::is_inhabited(self.0)
    }

    fn kill_orphans(&mut self, with_runner: bool) {
        orphans::kill(self.0, with_runner);
    }

    fn log_bounds(&mut self) -> io::Result<Option<Span>> {
        ship::bounds(self.0)
    }
}
