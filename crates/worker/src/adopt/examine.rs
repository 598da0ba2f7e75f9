//! What a worker that starts makes of a folder that it finds: every one counts, whatever can be said about it.

use std::time::Duration;

use planted::Bug;
use protocol::attempt::{AttemptSpec, OnDisconnect, Ticket};
use uuid::Uuid;

use super::folder::Folder;
use super::look::{Look, hollow, look};
use crate::agent::{Finding, Found, FoundLease};

/// How long the remains of a dead runner's step may take to die before the start goes on without a verdict on it.
pub const DYING_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at them.
pub const DYING_PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, PartialEq)]
pub enum Examined {
    Found(Box<Found>),
    /// What is left of its step is dying: examine it again after [`DYING_PAUSE`].
    Dying,
    /// It was never made whole: remove it.
    HalfMade,
}

/// Looks at the folder named `id`. `waited`: how long it has been dying already. `now` is on the clock that runs on
/// while the machine sleeps.
pub fn examine(folder: &mut impl Folder, id: Uuid, rebooted: bool, waited: Duration, now: Duration) -> Examined {
    let found = match look(folder, rebooted) {
        Ok(Look::Clear { spec, finding }) => describe(folder, &spec.attempt, finding, now),
        // It counts as running until it is proved otherwise.
        Ok(Look::Dying { spec: Some(spec) }) if waited >= DYING_PATIENCE => {
            describe(folder, &spec.attempt, Finding::Running, now)
        }
        Ok(Look::Dying { spec: None }) if waited >= DYING_PATIENCE => unreadable(folder, id),
        Ok(Look::Dying { .. }) => return Examined::Dying,
        Ok(Look::HalfMade) => return Examined::HalfMade,
        Ok(Look::Hollow) => Found { finding: hollow(), ..unreadable(folder, id) },
        Err(error) => {
            tracing::error!(attempt = %id, %error, "an attempt's folder cannot be read; it is left alone");
            unreadable(folder, id)
        }
    };
    Examined::Found(Box::new(found))
}

/// What was put away had ended, and its record says how: whether its runner is still on its way out does not matter. None if it
/// cannot be read.
pub fn look_at_kept(folder: &mut impl Folder, now: Duration) -> Option<Found> {
    let (spec, end) = (folder.read_spec().ok()?, folder.read_record().ok()?.end?);
    Some(describe(folder, &spec.attempt, Finding::Ended(Box::new(end)), now))
}

fn describe(folder: &mut impl Folder, spec: &AttemptSpec, finding: Finding, now: Duration) -> Found {
    let span = folder.log_bounds().unwrap_or_else(|error| {
        tracing::warn!(attempt = %spec.ticket.attempt, %error, "the log cannot be read now");
        None
    });
    Found {
        ticket: spec.ticket,
        job: spec.job,
        step: spec.step.clone(),
        finding,
        log_first_seq: span.map_or(0, |span| span.first_seq),
        log_last_seq: span.map_or(0, |span| span.last_seq),
        lease: lease(folder, spec, now),
        artifacts: spec.artifacts.clone(),
        fetches: !spec.fetch.is_empty(),
    }
}

/// Where the record does not say how far it goes, it may just have begun.
fn lease(folder: &mut impl Folder, spec: &AttemptSpec, now: Duration) -> Option<FoundLease> {
    let length = spec.lease_ms.filter(|_| spec.on_disconnect == OnDisconnect::Stop).map(Duration::from_millis)?;
    let ownership = folder.read_record().ok().and_then(|recorded| recorded.ownership);
    let from = ownership.map_or(now, |ownership| Duration::from_millis(ownership.confirmed_ms));
    Some(FoundLease { length, from })
}

/// What can still be said of a folder that this version cannot read: at least its name. A fence of 0 is no fence.
fn unreadable(folder: &mut impl Folder, id: Uuid) -> Found {
    let spec = folder.glimpse_spec();
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
        artifacts: None,
        fetches: false,
    }
}

/// Whether what was not found is certainly not there. `orphans`: processes live in folders that were deleted.
pub fn is_complete(found: &[Found], orphans: bool) -> bool {
    let orphans = orphans && !planted::is(Bug::DeletedIsGone);
    !orphans && found.iter().all(|found| found.finding != Finding::Unreadable)
}
