//! Promise: what somebody outside calls for is done once. Each delivery makes one job, however often it comes, which is there by the
//! same commit as its key and as the word of its trigger that it was called; and it makes none while that rests.

use std::collections::BTreeSet;

use engine::JobId;
use store::Batch;
use store::rows::TriggerRow;

use super::rows::Rows;
use super::{Accepted, Findings};
use crate::workload::CallPlan;

const CHECKER: &str = "call";

#[derive(Debug, Default)]
pub(crate) struct Calls {
    triggers: BTreeSet<String>,
}

impl Calls {
    pub(crate) fn new(plans: &[CallPlan]) -> Calls {
        Calls { triggers: plans.iter().map(CallPlan::trigger).collect() }
    }

    /// A delivery that was answered before comes to this job now; `is_there`: so is that from before.
    pub(super) fn answered(delivery: usize, jobs: [JobId; 2], is_there: bool, found: &mut Findings) {
        let [earlier, job] = jobs;
        if earlier != job && is_there {
            found.add(CHECKER, format!("delivery {delivery} became two jobs, {earlier} and {job}"));
        }
    }

    /// `rows` and `before`, a trigger's row, are those before the batch.
    pub(super) fn committed(
        &self,
        rows: &Rows,
        before: impl Fn(&str) -> Option<TriggerRow>,
        (batch, accepted): (&Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        if self.triggers.is_empty() {
            return;
        }
        let goes_on = |job: JobId| batch.lineage.iter().any(|line| line.job == job);
        for row in accepted.jobs().filter(|row| rows.job(row.id).is_none() && !goes_on(row.id)) {
            let trigger = row.submitted_by.strip_prefix("trigger:").filter(|id| self.triggers.contains(*id));
            let Some(trigger) = trigger.filter(|_| row.parent.is_none() && row.hook_of.is_none()) else { continue };
            let job = row.id;
            if !batch.idempotency.iter().any(|key| key.job == job) {
                found.add(CHECKER, format!("{trigger} made job {job}, and no delivery has it by the same commit"));
            }
            // In the first moments of an installation there is no such row.
            let Some(before) = before(trigger) else { continue };
            let says = accepted.triggers().find(|write| write.row.id == trigger && write.jobs.contains(&job));
            match says {
                None => found.add(CHECKER, format!("{trigger} made job {job}, and does not say so by the same commit")),
                Some(write) if before.paused_at.is_some() && write.row.paused_at == before.paused_at => {
                    found.add(CHECKER, format!("{trigger} made job {job}, and rests since {:?}", before.paused_at));
                }
                Some(_) => {}
            }
        }
    }
}
