//! One look at one attempt's folder.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use protocol::attempt::Ticket;
use protocol::folder::{Claim, FolderSpec, SPEC_FILE};
use protocol::link::Loss;
use runner::folder_io::{self, FolderError, Recorded};
use runner::remains::{self, Remains};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::agent::{Finding, Found};

/// Written when a reboot or the end of its lease took the step: later looks could not tell that any more.
const LOSS_FILE: &str = "loss.json";

#[derive(Debug)]
pub(crate) enum Look {
    Clear {
        spec: Box<FolderSpec>,
        finding: Finding,
    },
    /// The runner is dead, and what is left of its step was sent KILL: look again soon.
    Dying {
        spec: Box<FolderSpec>,
    },
    /// The worker died while it made the folder; there never was a runner.
    HalfMade,
}

/// Finds out how things stand. Blocks on the disk; may kill what a dead runner left.
pub(crate) fn look(folder: &Path, rebooted: bool) -> Result<Look, FolderError> {
    let spec = match folder_io::read_spec(folder) {
        Ok(spec) => Box::new(spec),
        Err(error) if is_half_made(folder, &error)? => return Ok(Look::HalfMade),
        Err(error) => return Err(error),
    };
    if folder_io::runner_lives(folder)? {
        return Ok(Look::Clear { finding: living(folder)?, spec });
    }
    // A runner that has not come to its lock yet is kept from starting by the claim.
    match folder_io::claim(folder, Claim::Void, true)? {
        Claim::Void => {
            let detail = "its runner is gone and had not started it".to_owned();
            Ok(Look::Clear { spec, finding: Finding::NeverStarted { detail } })
        }
        // It may have come to its lock meanwhile, claimed the start, and live.
        Claim::Intent if folder_io::runner_lives(folder)? => Ok(Look::Clear { finding: living(folder)?, spec }),
        Claim::Intent => dead(folder, spec, rebooted),
    }
}

fn living(folder: &Path) -> Result<Finding, FolderError> {
    match folder_io::read_claim(folder)? {
        Some(Claim::Intent) => Ok(Finding::Running),
        // With `void` it is about to leave, and will be found gone.
        Some(Claim::Void) | None => Ok(Finding::Waiting),
    }
}

/// It may have run, and its runner is gone.
fn dead(folder: &Path, spec: Box<FolderSpec>, rebooted: bool) -> Result<Look, FolderError> {
    let (tally, loss, detail) = match folder_io::read_record(folder) {
        Ok(Recorded { end: Some(end), .. }) => {
            return Ok(Look::Clear { spec, finding: Finding::Ended(Box::new(end)) });
        }
        Ok(Recorded { tally, end: None, .. }) => {
            (tally, Loss::RunnerLost, "its runner died without an exit record".to_owned())
        }
        Err(FolderError::Exit(error)) => (None, Loss::ResultNotAvailable, error.to_string()),
        Err(error) => return Err(error),
    };
    let (of_this_boot, of_an_earlier) = match read_loss(folder) {
        Some(noted) if noted.loss == Loss::LeaseExpired => (Some(noted), None),
        noted => (None, noted),
    };
    if let Some(noted) = of_an_earlier {
        // The numbers of its processes are somebody else's by now.
        return Ok(Look::Clear { spec, finding: noted.into() });
    }
    if rebooted {
        let finding = rebooted_finding(loss, detail);
        if let Err(error) = write_loss(folder, &finding) {
            tracing::warn!(folder = %folder.display(), %error, "that the machine was restarted cannot be noted");
        }
        return Ok(Look::Clear { spec, finding: finding.into() });
    }
    match remains::kill(&spec, tally) {
        Remains::None => {
            let finding = of_this_boot.map_or(Finding::Lost { loss, detail }, Finding::from);
            Ok(Look::Clear { spec, finding })
        }
        Remains::Dying => Ok(Look::Dying { spec }),
    }
}

/// Ends a step whose lease is over, and its runner, which should have done so and did not. The next look tells.
pub(crate) fn end_lease(folder: &Path) -> Result<Remains, FolderError> {
    let spec = folder_io::read_spec(folder)?;
    let recorded = folder_io::read_record(folder)?;
    if recorded.end.is_some() {
        // The runner has done it at the last moment.
        return Ok(Remains::None);
    }
    let detail = "its lease was over, and its runner did not end it".to_owned();
    if let Err(error) = write_loss(folder, &NotedLoss { loss: Loss::LeaseExpired, detail }) {
        tracing::warn!(folder = %folder.display(), %error, "that a lease is over cannot be noted");
    }
    remains::kill_with_runner(folder, &spec, recorded.tally)
}

/// What can still be said of a folder that this version cannot read: at least its name. A fence of 0 is no fence.
pub(super) fn unreadable(folder: &Path, id: Uuid) -> Found {
    let spec: Value =
        fs::read(folder.join(SPEC_FILE)).ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
    let attempt = &spec["attempt"];
    let ticket = serde_json::from_value(attempt["ticket"].clone()).unwrap_or(Ticket { attempt: id, fence: 0 });
    Found {
        ticket,
        job: serde_json::from_value(attempt["job"].clone()).unwrap_or_default(),
        step: attempt["step"].as_str().unwrap_or_default().to_owned(),
        finding: Finding::Unreadable,
        log_first_seq: 0,
        log_last_seq: 0,
        lease: None,
    }
}

/// Without a spec, or with half of one, and without a record there never was a runner.
fn is_half_made(folder: &Path, error: &FolderError) -> Result<bool, FolderError> {
    let no_spec = match error {
        FolderError::Io { source, .. } => source.kind() == ErrorKind::NotFound,
        FolderError::BadSpec(_) => true,
        FolderError::UnknownFormat(_) | FolderError::Locked | FolderError::Exit(_) => false,
    };
    let may_have_run = folder_io::read_claim(folder)? == Some(Claim::Intent);
    Ok(no_spec && !may_have_run && !folder_io::runner_lives(folder)?)
}

#[derive(Debug, Serialize, Deserialize)]
struct NotedLoss {
    loss: Loss,
    detail: String,
}

impl From<NotedLoss> for Finding {
    fn from(NotedLoss { loss, detail }: NotedLoss) -> Self {
        Finding::Lost { loss, detail }
    }
}

/// A record that was torn is worth saying even then: it tells that the step had ended.
fn rebooted_finding(loss: Loss, detail: String) -> NotedLoss {
    match loss {
        Loss::ResultNotAvailable => NotedLoss { loss, detail },
        _ => NotedLoss { loss: Loss::MachineRebooted, detail: "the machine was restarted while it ran".to_owned() },
    }
}

fn read_loss(folder: &Path) -> Option<NotedLoss> {
    let json = fs::read(folder.join(LOSS_FILE)).ok()?;
    serde_json::from_slice(&json).ok()
}

fn write_loss(folder: &Path, noted: &NotedLoss) -> io::Result<()> {
    let temporary = folder.join(format!("{LOSS_FILE}.new"));
    let json = serde_json::to_vec(noted).expect("it is plain data and always has a JSON form");
    fs::write(&temporary, json)?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(temporary, folder.join(LOSS_FILE))?;
    fs::File::open(folder)?.sync_all()
}
