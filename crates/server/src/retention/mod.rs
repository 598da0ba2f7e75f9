//! What is old goes: jobs that are over with all that is theirs, logs, workers that nobody has seen for long.
//!
//! [`plan`] says what may go, and why the rest stays; it is pure. [`Run`] carries that out in small pieces, each a
//! transaction of its own: the ledger does one between two rounds, `bowline db prune` one after the other.
//!
//! A job and all that it began, or that followed on its end, share the first half of their ids, and go together or not at
//! all. So a job that is not on record, with nobody of its family on record either, and from before the time up to which
//! anything was deleted ([`Mark`]), is one that was deleted: whoever reports on it late is let go without an alarm.

mod by_hand;
mod estimate;
pub mod plan;
mod run;

use std::time::Duration;

pub use api::{PruneKept as Kept, PruneTally as Tally};
use engine::{Heard, JobId, Time};
use serde::{Deserialize, Serialize};
use store::check::RETENTION_KEY;
use store::{Batch, Cleared, Reader, Store, StoreError, Tenure};

pub use by_hand::{give_back, take_over};
pub use estimate::estimate;
pub use plan::Keep;
pub use run::{Run, Step};

/// How long things are kept; none: for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionRules {
    pub jobs: Option<Duration>,
    pub logs: Option<Duration>,
    pub workers: Option<Duration>,
    /// From one run to the next.
    pub every: Duration,
    /// Nothing goes by itself before the server has listened for so long without a break: a clock that was wrong when its
    /// machine started is put right by then, and nothing is taken for older than it is.
    pub settle: Duration,
}

impl Default for RetentionRules {
    fn default() -> RetentionRules {
        let (every, settle) = (Duration::from_secs(3_600), Duration::from_secs(600));
        RetentionRules { jobs: None, logs: None, workers: None, every, settle }
    }
}

impl RetentionRules {
    pub fn cutoffs(&self, now: Time, heard: Heard) -> Cutoffs {
        let ago = |kept: Option<Duration>| kept.map(|kept| now - kept);
        let workers = self.workers.map(|kept| Unseen { since: now - kept, left_before: heard - kept });
        Cutoffs { jobs: ago(self.jobs), logs: ago(self.logs), workers }
    }

    pub fn keeps_all(&self) -> bool {
        self.jobs.is_none() && self.logs.is_none() && self.workers.is_none()
    }
}

/// What is from before these times may go; none: nothing of the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cutoffs {
    pub jobs: Option<Time>,
    pub logs: Option<Time>,
    pub workers: Option<Unseen>,
}

/// Who was last seen before a time, and has been gone in hearing time for as long: a clock that leaps, or servers that are not there,
/// keep nobody away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unseen {
    pub since: Time,
    pub left_before: Heard,
}

impl Cutoffs {
    /// The same, but with jobs and logs that ended before this time.
    #[must_use]
    pub fn older_than(self, time: Time) -> Cutoffs {
        Cutoffs { jobs: Some(time), logs: Some(time), workers: self.workers }
    }
}

fn add(tally: &mut Tally, cleared: Cleared) {
    tally.attempts += cleared.attempts;
    tally.events += cleared.events;
    tally.log_lines += cleared.log_lines;
    tally.log_bytes += cleared.log_bytes;
}

/// How far retention has got, for `/readyz` and the API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// When the run that goes on, or the last one, began; none before the first.
    pub started_at: Option<Time>,
    /// None while it goes on.
    pub ended_at: Option<Time>,
    pub tally: Tally,
}

/// Up to when jobs were ever deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    before: i64,
}

pub(crate) fn mark(reader: &dyn Reader) -> Result<Option<Time>, StoreError> {
    let text = reader.meta(RETENTION_KEY)?;
    Ok(text.and_then(|text| serde_json::from_str::<Mark>(&text).ok()).map(|mark| Time(mark.before)))
}

/// Before anything goes: what is not on record from then on may be missing for that reason. Who slept since it looked must not
/// put it back.
fn raise_mark(store: &mut dyn Store, before: Time, (now, under): (Time, Option<Tenure>)) -> Result<(), StoreError> {
    if mark(&*store.reader())?.is_some_and(|mark| mark >= before) {
        return Ok(());
    }
    let text = serde_json::to_string(&Mark { before: before.0 }).expect("a number always has a JSON form");
    let (meta, under) = (vec![(RETENTION_KEY, text)], under.into_iter().collect());
    store.commit(&Batch { now, meta, under, ..Batch::default() }).map(drop)
}

/// Whether a job that is not on record was deleted, with all of its family. What else is missing was lost.
pub fn was_deleted(reader: &dyn Reader, job: JobId) -> Result<bool, StoreError> {
    let Some(before) = mark(reader)? else { return Ok(false) };
    if !job.is_from_before(before) {
        return Ok(false);
    }
    let (first, _) = job.0.as_u64_pair();
    let (low, high) = (uuid::Uuid::from_u64_pair(first, 0), uuid::Uuid::from_u64_pair(first, u64::MAX));
    let kin = reader.old_jobs(below(low), JobId(high), 1)?;
    Ok(kin.is_empty())
}

/// The id after this one.
fn above(id: uuid::Uuid) -> JobId {
    JobId(uuid::Uuid::from_u128(id.as_u128().saturating_add(1)))
}

/// The id before this one.
fn below(id: uuid::Uuid) -> Option<JobId> {
    id.as_u128().checked_sub(1).map(|before| JobId(uuid::Uuid::from_u128(before)))
}
