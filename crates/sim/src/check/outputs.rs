//! Promise: what a step gives is what its process wrote, and what others are given of it is that. The output in the row of a step that
//! ended well by itself is that of the attempt that its end is of; and a step whose environment shows another one's output
//! runs with what is in that one's row.

use std::collections::BTreeMap;

use engine::{AttemptId, StepIx};
use protocol::attempt::{AttemptSpec, Ticket};
use store::Batch;

use super::files::is_a_persons_word;
use super::plans::Plans;
use super::rows::{Place, Rows};
use super::{Accepted, Findings};

const CHECKER: &str = "output";

/// The variable that a step has another one's output in.
const SEEN: &str = "SEEN";

#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// What the process of each attempt wrote as `n`.
    wrote: BTreeMap<AttemptId, i64>,
}

impl Outputs {
    pub(super) fn wrote(&mut self, ticket: Ticket, number: i64) {
        self.wrote.insert(AttemptId(ticket.attempt), number);
    }

    /// `rows` are those after the batch.
    pub(super) fn committed(
        &self,
        rows: &Rows,
        plans: &Plans,
        (batch, accepted): (&Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        for row in accepted.steps().filter(|row| row.state == "success") {
            let place = Place { job: row.job, step: row.ix };
            let (Some(plan), Some(step)) = (plans.step(rows, place), rows.step(place)) else { continue };
            let by_others = plan.child.is_some() || (plan.fan.is_some() && step.item_of().is_none());
            let last = step.attempts.last().filter(|_| !by_others && !is_a_persons_word(batch, place));
            let Some(wrote) = last.and_then(|attempt| self.wrote.get(attempt)) else { continue };
            if step.output != Some(*wrote) {
                let given = step.output;
                found.add(CHECKER, format!("step {} of {} has given {given:?}, and wrote {wrote}", row.name, row.job));
            }
        }
    }

    /// The step's process executes.
    pub(super) fn started(rows: &Rows, plans: &Plans, spec: &AttemptSpec, found: &mut Findings) {
        let Some(attempt) = rows.attempts.get(&AttemptId(spec.ticket.attempt)) else { return };
        let place = attempt.place;
        let Some(shows) = plans.step(rows, place).and_then(|plan| plan.shows) else { return };
        let shown = rows.step(Place { job: place.job, step: StepIx::of(shows) });
        let wanted = shown.and_then(|step| step.output).unwrap_or_default().to_string();
        let given = spec.env.get(SEEN);
        if given != Some(&wanted) {
            let (step, job) = (&spec.step, spec.job);
            found.add(CHECKER, format!("{step} of {job} runs with {SEEN}={given:?}, and {wanted} was given"));
        }
    }
}
