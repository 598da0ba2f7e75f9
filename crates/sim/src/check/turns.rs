//! Promise: of the items of a step never more are under way than its `max_parallel` says, after any commit. One is from its turn
//! on until it is over: also while it waits for a worker, for its retry or for a person.

use super::plans::Plans;
use super::rows::{Place, Rows};
use super::{Accepted, Findings};

const CHECKER: &str = "turn";

/// `rows` are those after the batch. Not where commits were lost: what a worker brings back has had its turn by no record.
pub(super) fn committed(rows: &Rows, plans: &Plans, accepted: &Accepted<'_>, found: &mut Findings) {
    for row in accepted.steps().filter(|row| is_under_way(row.state)) {
        let place = Place { job: row.job, step: row.ix };
        let Some(of) = rows.step(place).and_then(|step| step.item_of()) else { continue };
        let fan = plans.step(rows, place).and_then(|plan| plan.fan.as_ref());
        let (Some(most), Some(job)) = (fan.and_then(|fan| fan.max_parallel), rows.job(row.job)) else { continue };
        let items = job.steps.values().filter(|step| step.item_of() == Some(of) && is_under_way(step.state));
        let count = items.count();
        if count > most as usize {
            found.add(CHECKER, format!("{count} items of {of} of {} are under way, and {most} may be", row.job));
        }
    }
}

fn is_under_way(state: &str) -> bool {
    matches!(state, "queued" | "running" | "recovering" | "cancelling" | "held" | "waiting")
}
