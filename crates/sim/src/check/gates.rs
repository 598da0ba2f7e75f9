//! Promise: nothing goes on before all that holds it back is done with. A step with an environment is in no queue before its
//! wait, and before so many different people have said yes.

use std::collections::{BTreeMap, BTreeSet};

use super::plans::Plans;
use super::rows::{Place, Rows};
use super::{Accepted, Findings};
use crate::workload::Kind;

const CHECKER: &str = "gate";

#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// Who said yes, heard or not.
    approvals: BTreeMap<Place, BTreeSet<&'static str>>,
    waited: BTreeSet<Place>,
}

impl Gates {
    pub(crate) fn approve_asked(&mut self, place: Place, by: &'static str) {
        self.approvals.entry(place).or_default().insert(by);
    }

    pub(crate) fn approvals(&self, place: Place) -> BTreeSet<&'static str> {
        self.approvals.get(&place).cloned().unwrap_or_default()
    }

    /// `rows` are those after the batch.
    pub(crate) fn committed(&mut self, rows: &Rows, plans: &Plans, accepted: &Accepted<'_>, found: &mut Findings) {
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            // What holds a step back holds its items back with it.
            let (Some(plan), Some(step)) = (plans.step(rows, place), rows.step(place)) else { continue };
            let Some(gate) = plan.gate.as_ref().filter(|_| plan.kind != Kind::Approve && step.item_of().is_none())
            else {
                continue;
            };
            if row.state == "waiting" {
                self.waited.insert(place);
            }
            if !matches!(row.state, "queued" | "running") {
                continue;
            }
            let (ix, job, state) = (row.ix.0, row.job, row.state);
            if gate.wait.is_some() && !self.waited.contains(&place) {
                found.add(CHECKER, format!("step {ix} of {job} is {state}, and did not wait"));
            }
            let by = self.approvals(place);
            let submitter = rows.job(job).map_or("", |job| job.submitter);
            if !plan.is_approved(&by, submitter) {
                found.add(CHECKER, format!("step {ix} of {job} is {state}, approved by {by:?}, and wants {gate:?}"));
            }
        }
    }
}
