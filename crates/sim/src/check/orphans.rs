//! Promise: what nobody wants any more does not run on. An attempt that was cancelled, timed out or replaced is over soon
//! after its worker could be told: at once, or when it comes back.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{JobId, WorkerId};
use store::Batch;

use super::Findings;
use super::ears::Ears;
use super::lives::Lives;
use super::plans::Plans;
use super::rows::Rows;

const CHECKER: &str = "orphan";

/// Messages, the kill, and a second look at what was left behind.
const MARGIN: Duration = Duration::from_secs(30);

/// Every so often is often enough.
const EVERY: Duration = Duration::from_secs(5);

/// A server leaves a job alone for so long that the database refused.
const LEFT_ALONE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Orphans {
    next: Duration,
    refused: BTreeMap<JobId, Duration>,
    /// When each worker last came to be told. One that was removed is told without an epoch, which no commit says.
    came: BTreeMap<WorkerId, Duration>,
}

impl Orphans {
    pub(crate) fn comes(&mut self, now: Duration, worker: WorkerId) {
        self.came.insert(worker, now);
    }

    pub(crate) fn refused(&mut self, now: Duration, batch: &Batch) {
        self.refused.extend(batch.jobs.iter().map(|write| (write.row.id, now)));
    }

    pub(crate) fn look(
        &mut self,
        now: Duration,
        ears: &Ears,
        lives: &Lives,
        (rows, plans): (&Rows, &Plans),
        found: &mut Findings,
    ) {
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        // Who does not find it cannot be told to end it.
        for (id, host) in lives.alive().filter(|(id, _)| !lives.is_out_of_sight(*id)) {
            let Some(attempt) = rows.attempts.get(&id) else { continue };
            let (Some(over), Some(step)) = (attempt.over_at, rows.step(attempt.place)) else { continue };
            let replaced = step.attempts.last() != Some(&id);
            let on_purpose = matches!(attempt.settled_as, Some("cancelled" | "step_timeout" | "job_timeout"));
            if !replaced && !on_purpose {
                continue;
            }
            // Nor who cannot read what it has.
            let Some(readable) = ears.disk_works_since(host) else { continue };
            let voice = ears.worker(attempt.worker);
            let thawed = ears.freeze(id).map_or(Duration::ZERO, |freeze| freeze.until);
            let grace = plans.step(rows, attempt.place).map(|plan| plan.end_time()).unwrap_or_default();
            let left_alone = self.refused.get(&attempt.place.job).map_or(Duration::ZERO, |at| *at + LEFT_ALONE);
            let came = self.came.get(&attempt.worker).copied().unwrap_or_default().max(voice.hello);
            let gone_by = over.max(came).max(thawed).max(readable).max(left_alone) + grace + MARGIN;
            if voice.seen > gone_by {
                let why = if replaced { "was replaced" } else { "was told to stop" };
                let (job, late) = (attempt.place.job, now - gone_by);
                found.add(
                    CHECKER,
                    format!("attempt {id} of {job} {why} and runs on, on host {host}, for {late:?} too long"),
                );
                return;
            }
        }
    }
}
