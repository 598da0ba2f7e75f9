//! The plans behind the jobs: what each step was meant to be.

use std::collections::BTreeMap;

use engine::JobId;

use super::rows::{Place, Rows};
use crate::workload::{JobPlan, StepPlan};

/// By the task's name, which continuations share.
#[derive(Debug, Default)]
pub(crate) struct Plans(BTreeMap<String, JobPlan>);

impl Plans {
    pub(crate) fn new(plans: &[JobPlan]) -> Plans {
        Plans(plans.iter().map(|plan| (plan.name.clone(), plan.clone())).collect())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &JobPlan> {
        self.0.values()
    }

    pub(crate) fn job(&self, rows: &Rows, id: JobId) -> Option<&JobPlan> {
        self.0.get(&rows.job(id)?.task)
    }

    pub(crate) fn step(&self, rows: &Rows, place: Place) -> Option<&StepPlan> {
        let plan = self.job(rows, place.job)?;
        match plan.steps.get(place.step.get()) {
            None => plan.find(rows.step(place)?.item_of()?),
            step => step,
        }
    }
}
