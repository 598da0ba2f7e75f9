//! Promise: a final step never changes and neither does a final job; a job is finalised once; whatever is to be delivered
//! outside is written once.

use std::collections::BTreeMap;

use engine::JobId;
use server::ledger::Letter;
use store::Batch;
use uuid::Uuid;

use super::rows::{Place, Rows};
use super::{Accepted, Findings};

const CHECKER: &str = "final";

#[derive(Debug, Default)]
pub(crate) struct Finals {
    /// How each job ended, by the word of its history.
    ended: BTreeMap<JobId, &'static str>,
    deliveries: BTreeMap<Uuid, Delivery>,
}

/// A word to somebody outside, as it was written down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Delivery {
    job: JobId,
    /// What it follows on, as `on_success`.
    on: String,
}

impl Finals {
    /// Commits that told of these ends and deliveries are gone.
    pub(super) fn forget(&mut self, ended: &[JobId], deliveries: &[Uuid]) {
        self.ended.retain(|job, _| !ended.contains(job));
        deliveries.iter().for_each(|id| drop(self.deliveries.remove(id)));
    }

    /// How many words were written down for each job and occasion, whatever ids they have.
    pub(super) fn words(&self) -> BTreeMap<(JobId, &str), usize> {
        let mut words = BTreeMap::new();
        for delivery in self.deliveries.values() {
            *words.entry((delivery.job, delivery.on.as_str())).or_default() += 1;
        }
        words
    }

    pub(crate) fn committed(&mut self, rows: &Rows, batch: &Batch, accepted: &Accepted<'_>, found: &mut Findings) {
        for row in accepted.jobs() {
            let Some(before) = rows.job(row.id) else { continue };
            if before.is_final {
                found
                    .add(CHECKER, format!("job {} was {} and is written again as {}", row.id, before.state, row.state));
            }
            if row.version <= before.version {
                let versions = format!("{} after {}", row.version, before.version);
                found.add(CHECKER, format!("job {} was written with version {versions}", row.id));
            }
        }
        for row in accepted.steps() {
            let before = rows.step(Place { job: row.job, step: row.ix });
            if let Some(before) = before.filter(|step| step.is_final) {
                let change = format!("was {} and is written again as {}", before.state, row.state);
                found.add(CHECKER, format!("step {} of {} {change}", row.name, row.job));
            }
        }
        for event in batch.events.iter().filter(|event| event.kind == "job" && accepted.job(event.job)) {
            let Some(to) = event.to.filter(|to| matches!(*to, "success" | "failed" | "cancelled")) else { continue };
            if let Some(before) = self.ended.insert(event.job, to) {
                found.add(CHECKER, format!("job {} ended as {before}, and once more as {to}", event.job));
            }
        }
        for row in batch.outbox.iter().filter(|row| accepted.job(row.job)) {
            let on = Letter::from_json(&row.body).map(|letter| letter.on).unwrap_or_default();
            if self.deliveries.insert(row.id, Delivery { job: row.job, on }).is_some() {
                found.add(CHECKER, format!("{} of {} is to be delivered twice", row.kind, row.job));
            }
        }
    }
}
