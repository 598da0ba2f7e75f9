//! Promise: what waits for a time waits for all of it. A step that is tried again goes back into its queue not before the delay
//! that its policy says for so many executions, or half of it where that is left to chance; and one with an environment not
//! before that one's wait is over. By the installation's clock, which is what both are measured with.
//!
//! Not after commits were lost: what a worker has started already waits no longer, whatever the rows say.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Time;
use store::Batch;

use super::plans::Plans;
use super::rows::{Place, Rows, StepSeen};
use super::{Accepted, Findings};
use crate::model::Reason;
use crate::workload::StepPlan;

const CHECKER: &str = "wait";

/// Times in rows are whole.
const ROUNDED: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(crate) struct Waits {
    under_way: BTreeMap<Place, Wait>,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Time,
    least: Duration,
}

/// The states that steps of a batch were in before it.
pub(super) fn before(rows: &Rows, accepted: &Accepted<'_>) -> BTreeMap<Place, &'static str> {
    let state = |place: Place| Some((place, rows.step(place)?.state));
    accepted.steps().filter_map(|row| state(Place { job: row.job, step: row.ix })).collect()
}

impl Waits {
    /// `rows` are those after the batch.
    pub(super) fn committed(
        &mut self,
        before: &BTreeMap<Place, &'static str>,
        (rows, plans): (&Rows, &Plans),
        (batch, accepted): (&Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            let (Some(plan), Some(step)) = (plans.step(rows, place), rows.step(place)) else { continue };
            let from = before.get(&place).copied().unwrap_or("pending");
            match (from, row.state) {
                ("waiting", "waiting") => {}
                (_, "waiting") => {
                    let executed = executions(step, plan, rows).unwrap_or(1);
                    if let Some(least) = least(from, plan, executed) {
                        self.under_way.insert(place, Wait { since: batch.now, least });
                    }
                }
                (_, state) => {
                    let goes_on = matches!(state, "queued" | "running" | "held") && !step.was_doubted;
                    if let Some(wait) = self.under_way.remove(&place).filter(|_| goes_on) {
                        wait.over(place, state, batch.now, found);
                    }
                }
            }
        }
    }
}

impl Wait {
    fn over(self, place: Place, state: &str, now: Time, found: &mut Findings) {
        let waited = now.since(self.since);
        if waited + ROUNDED < self.least {
            let (ix, job, least) = (place.step.0, place.job, self.least);
            found
                .add(CHECKER, format!("step {ix} of {job} is {state} after {waited:?}, and was to wait for {least:?}"));
        }
    }
}

/// How long a step waits at least that began to from this state; none where a person's word may have to do with it.
fn least(from: &str, plan: &StepPlan, executed: u32) -> Option<Duration> {
    match from {
        "pending" => plan.gate.as_ref()?.wait,
        "running" | "recovering" | "cancelling" => Some(plan.retry.as_ref()?.shortest_delay(executed)),
        _ => None,
    }
}

/// How often it was executed for certain, as its policy counts; none where a person may have decided what counts.
fn executions(step: &StepSeen, plan: &StepPlan, rows: &Rows) -> Option<u32> {
    let counts = |reason: Reason| match reason {
        Reason::Exit(_) | Reason::Timeout => true,
        Reason::Lost => plan.retries(Reason::Lost),
        Reason::NeverStarted | Reason::Person | Reason::Final => false,
    };
    let attempts = step.attempts.iter().filter_map(|id| rows.attempts.get(id));
    let counted = attempts.filter(|attempt| attempt.is_over() && counts(attempt.reason())).count();
    u32::try_from(counted).ok().filter(|count| *count > 0 && !step.was_doubted)
}
