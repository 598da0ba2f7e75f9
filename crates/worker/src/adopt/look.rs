//! One look at one attempt's folder, and what follows from it.
//!
//! The order of questions matters, because a runner may come or go between two of them: who lives, then a claim that
//! keeps whoever comes late from starting, then once more who lives.

use std::io::ErrorKind;
use std::time::Duration;

use planted::Bug;
use protocol::attempt::Effects;
use protocol::folder::{Claim, FolderSpec};
use protocol::link::Loss;
use runner::folder_io::{FolderError, Recorded};
use runner::remains::Remains;

use super::folder::{Folder, NotedLoss};
use super::orphans::Orphans;
use crate::agent::Finding;

/// Before another look, or another try at what could not be done.
pub const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// The same for a folder that cannot be read: a disk may come back, another version's format will not.
pub const UNREADABLE_PAUSE: Duration = Duration::from_secs(5);

const REBOOTED: &str = "the machine was restarted while it ran";

#[derive(Debug)]
pub enum Look {
    Clear {
        spec: Box<FolderSpec>,
        finding: Finding,
    },
    /// The runner is dead, and what is left of its step was sent KILL: look again soon. `None`: the folder was deleted.
    Dying {
        spec: Option<Box<FolderSpec>>,
    },
    /// The worker died while it made the folder, and there never was a runner; or it was deleted, and nothing of it lives.
    HalfMade,
    /// It was claimed, nobody lives in it, and its spec cannot be read and never will be: it ran, and nobody can say what came of it.
    Hollow,
}

/// What is told of a [`Look::Hollow`].
pub(super) fn hollow() -> Finding {
    let detail = "its runner is gone, and what it had left cannot be read".to_owned();
    Finding::Lost { loss: Loss::ResultNotAvailable, detail }
}

/// Finds out how things stand. May kill what a dead runner left. `rebooted`: no process of an earlier worker can live.
pub fn look(folder: &mut impl Folder, rebooted: bool) -> Result<Look, FolderError> {
    let spec = match folder.read_spec() {
        Ok(spec) => Box::new(spec),
        Err(error) => return without_spec(folder, error, rebooted),
    };
    if folder.runner_lives()? {
        return Ok(Look::Clear { finding: living(folder)?, spec });
    }
    // The claim of a step without effects is not synced: after a power cut its absence says nothing.
    let unsynced = spec.attempt.effects == Effects::None && !planted::is(Bug::PowerCutVoids);
    let in_doubt = rebooted && unsynced && folder.read_claim()?.is_none();
    if in_doubt {
        note(folder, &spec, &rebooted_loss(Loss::MachineRebooted, String::new()));
    }
    // A runner that has not come to its lock yet is kept from starting by the claim.
    match folder.claim_void()? {
        Claim::Void => Ok(Look::Clear { finding: unclaimed(folder, in_doubt)?, spec }),
        // It may have come to its lock meanwhile, claimed the start, and live.
        Claim::Intent if folder.runner_lives()? => Ok(Look::Clear { finding: living(folder)?, spec }),
        Claim::Intent if planted::is(Bug::IntentCountsAsVoid) => {
            let detail = "its runner is gone and left no record".to_owned();
            Ok(Look::Clear { spec, finding: Finding::NeverStarted { detail } })
        }
        Claim::Intent => dead(folder, spec, rebooted),
    }
}

fn living(folder: &mut impl Folder) -> Result<Finding, FolderError> {
    match folder.read_claim()? {
        Some(Claim::Intent) => Ok(Finding::Running),
        // With `void` it is about to leave, and will be found gone.
        Some(Claim::Void) | None => Ok(Finding::Waiting),
    }
}

/// Nobody has claimed its start, as far as the disk says.
fn unclaimed(folder: &mut impl Folder, in_doubt: bool) -> Result<Finding, FolderError> {
    if !in_doubt && folder.read_loss().is_none() {
        return Ok(Finding::NeverStarted { detail: "its runner is gone and had not started it".to_owned() });
    }
    match folder.read_record() {
        Ok(Recorded { end: Some(end), .. }) => Ok(Finding::Ended(Box::new(end))),
        Ok(_) | Err(FolderError::Exit(_)) => Ok(Finding::Unsure { detail: REBOOTED.to_owned() }),
        Err(error) => Err(error),
    }
}

/// It may have run, and its runner is gone.
fn dead(folder: &mut impl Folder, spec: Box<FolderSpec>, rebooted: bool) -> Result<Look, FolderError> {
    let (tally, loss, detail) = match folder.read_record() {
        Ok(Recorded { end: Some(end), .. }) => {
            return Ok(Look::Clear { spec, finding: Finding::Ended(Box::new(end)) });
        }
        Ok(Recorded { tally, end: None, .. }) => {
            (tally, Loss::RunnerLost, "its runner died without an exit record".to_owned())
        }
        Err(FolderError::Exit(error)) => (None, Loss::ResultNotAvailable, error.to_string()),
        Err(error) => return Err(error),
    };
    let (of_this_boot, of_an_earlier) = match folder.read_loss() {
        Some(noted) if noted.loss == Loss::LeaseExpired => (Some(noted), None),
        noted => (None, noted),
    };
    if let Some(noted) = of_an_earlier {
        // The numbers of its processes are somebody else's by now.
        return Ok(Look::Clear { spec, finding: noted.into() });
    }
    if rebooted {
        let noted = rebooted_loss(loss, detail);
        note(folder, &spec, &noted);
        return Ok(Look::Clear { spec, finding: noted.into() });
    }
    let remains = if planted::is(Bug::RemainsLeftAlive) { Remains::None } else { folder.kill_remains(&spec, tally) };
    match remains {
        Remains::None => {
            let finding = of_this_boot.map_or(Finding::Lost { loss, detail }, Finding::from);
            Ok(Look::Clear { spec, finding })
        }
        Remains::Dying => Ok(Look::Dying { spec: Some(spec) }),
    }
}

fn note(folder: &mut impl Folder, spec: &FolderSpec, noted: &NotedLoss) {
    if let Err(error) = folder.write_loss(noted) {
        let attempt = spec.attempt.ticket.attempt;
        tracing::warn!(%attempt, %error, "that the machine was restarted cannot be noted");
    }
}

/// A record that was torn is worth saying even then: it tells that the step had ended.
fn rebooted_loss(loss: Loss, detail: String) -> NotedLoss {
    match loss {
        Loss::ResultNotAvailable => NotedLoss { loss, detail },
        _ => NotedLoss { loss: Loss::MachineRebooted, detail: REBOOTED.to_owned() },
    }
}

/// Without a spec, or with half of one, and without a claim there never was a runner, unless the folder was deleted under it.
/// With one, what it started may live as long as somebody lives there. After a restart of the machine nobody does, whatever was
/// claimed. Nobody can say whose it was: what its worker does not report counts as gone.
fn without_spec(folder: &mut impl Folder, error: FolderError, rebooted: bool) -> Result<Look, FolderError> {
    let no_spec = is_missing(&error) || matches!(error, FolderError::BadSpec(_));
    let may_have_run = !rebooted && folder.read_claim()? == Some(Claim::Intent);
    if !no_spec || may_have_run && folder.is_inhabited() || folder.runner_lives()? {
        return Err(error);
    }
    match folder.orphans() {
        // It sees to its step, as long as it can.
        Orphans { runner: true, .. } => Err(error),
        Orphans { step: true, .. } => {
            folder.kill_orphans(false);
            Ok(Look::Dying { spec: None })
        }
        Orphans::NONE if may_have_run => Ok(Look::Hollow),
        Orphans::NONE => Ok(Look::HalfMade),
    }
}

fn is_missing(error: &FolderError) -> bool {
    matches!(error, FolderError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// Takes back an attempt that has not started yet: whoever claimed first decides. In a folder that was deleted nobody can
/// claim a start any more; it had started before if something of its step lives. Nobody knows of one whose runner was `told`
/// to go: it may have ended as well.
pub fn take_back(folder: &mut impl Folder, told: bool) -> Result<Claim, FolderError> {
    match folder.claim_void() {
        Err(error) if is_missing(&error) => Ok(if told || folder.orphans().step { Claim::Intent } else { Claim::Void }),
        claimed => claimed,
    }
}

/// Ends a step whose lease is over, and its runner, which should have done so and did not. If something is dying, or on
/// an error, it is to be called again after [`RETRY_PAUSE`]; the next look at the folder tells the rest.
pub fn end_lease(folder: &mut impl Folder) -> Result<Remains, FolderError> {
    let spec = match folder.read_spec() {
        Err(error) if is_missing(&error) => return Ok(end_orphans(folder)),
        spec => spec?,
    };
    let recorded = folder.read_record()?;
    if recorded.end.is_some() {
        // The runner has done it at the last moment.
        return Ok(Remains::None);
    }
    let detail = "its lease was over, and its runner did not end it".to_owned();
    if let Err(error) = folder.write_loss(&NotedLoss { loss: Loss::LeaseExpired, detail }) {
        let attempt = spec.attempt.ticket.attempt;
        tracing::warn!(%attempt, %error, "that a lease is over cannot be noted");
    }
    folder.kill_with_runner(&spec, recorded.tally)
}

fn end_orphans(folder: &mut impl Folder) -> Remains {
    if folder.orphans() == Orphans::NONE {
        return Remains::None;
    }
    folder.kill_orphans(true);
    Remains::Dying
}

/// What a worker that has looked because its agent asked does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The runner lives: connect to it, then tell the agent. If that fails it is about to listen or about to leave: look
    /// again after [`RETRY_PAUSE`].
    Connect(Finding),
    /// Tell the agent.
    Tell(Finding),
    LookAgain {
        after: Duration,
    },
}

impl Next {
    pub fn after(look: Result<Look, FolderError>) -> Self {
        match look {
            Ok(Look::Clear { finding: finding @ (Finding::Waiting | Finding::Running), .. }) => Next::Connect(finding),
            Ok(Look::Clear { finding, .. }) => Next::Tell(finding),
            Ok(Look::Dying { .. }) => Next::LookAgain { after: RETRY_PAUSE },
            Ok(Look::HalfMade) => {
                Next::Tell(Finding::Lost { loss: Loss::RunnerLost, detail: "its folder was removed".to_owned() })
            }
            Ok(Look::Hollow) => Next::Tell(hollow()),
            Err(_) => Next::LookAgain { after: UNREADABLE_PAUSE },
        }
    }
}
