//! Claiming the folder and starting the step: nothing execs before `go`, and whoever claims first decides.

use std::path::Path;
use std::time::Duration;

use pause::Point;
use protocol::attempt::StopReason;
use protocol::folder::Claim;

use crate::child::{self, Child};
use crate::folder_io::{self, Claimed};
use crate::guard::Guard;
use crate::life::Input;
use crate::notes;
use crate::prepare::Desk;

/// By the folder's full path: the current folder can be used even after it was deleted.
pub(crate) fn is_wanted(root: &Path) -> bool {
    root.exists() && !matches!(folder_io::read_claim(root), Ok(Some(Claim::Void)))
}

/// If the folder is gone there is nothing to say.
pub(crate) fn declare_void(root: &Path) {
    if root.exists()
        && let Err(error) = folder_io::claim(root, Claim::Void, false)
    {
        notes::write(&error.to_string());
    }
}

pub(crate) fn claim(root: &Path, durable: bool) -> Input {
    match folder_io::try_claim(root, Claim::Intent, durable) {
        Ok(claimed) => {
            match claimed {
                Claimed::Ours => pause::at(Point::Intent),
                Claimed::Earlier(Claim::Intent) => notes::write("an earlier runner has claimed this attempt"),
                Claimed::Earlier(Claim::Void) => {}
            }
            Input::Claimed(claimed)
        }
        Err(error) => Input::StartFailed { message: error.to_string() },
    }
}

/// Starts the step, behind a guard where its lease ends it. Or says why that is not possible.
pub(crate) fn spawn(desk: &mut Desk, guard_until: Option<Duration>) -> Result<Child, String> {
    let image = desk.image.as_ref().map_err(ToString::to_string)?;
    let guard = guard_until.map(|until| Guard::start(&desk.spec, until)).transpose();
    let guard = guard.map_err(|error| format!("a guard for the step's lease cannot be started: {error}"))?;
    match child::spawn(image, desk.spec.cgroup().as_deref()) {
        Ok(child) => {
            desk.guard = guard;
            pause::at(Point::Exec);
            Ok(child)
        }
        Err(error) => {
            guard.into_iter().for_each(Guard::dismiss);
            Err(error.to_string())
        }
    }
}

/// Starts the cleanup of a step that has ended. Its guard, if it has one, looks after this as well.
pub(crate) fn clean_up(desk: &Desk, reason: StopReason) -> Result<Child, String> {
    let image = desk.cleanup.as_ref().ok_or("the step has none")?;
    let image = image.as_ref().map_err(ToString::to_string)?.for_cleanup(reason);
    child::spawn(&image, desk.spec.cgroup().as_deref()).map_err(|error| error.to_string())
}
