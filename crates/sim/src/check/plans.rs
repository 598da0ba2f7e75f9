//! The plans behind the jobs: what each step was meant to be.

use std::collections::BTreeMap;

use engine::JobId;

use super::rows::{Place, Rows};
use crate::workload::{CallPlan, JobPlan, SchedulePlan, StepPlan};

/// By the task's name, which continuations share, and jobs that were begun by the same step.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    by_name: BTreeMap<String, JobPlan>,
    /// Those that are submitted.
    outermost: Vec<String>,
    /// Those that come by themselves, or are called from outside.
    scheduled: Vec<String>,
}

impl Plans {
    pub(crate) fn new(plans: &[JobPlan], schedules: &[SchedulePlan], calls: &[CallPlan]) -> Plans {
        let others = || schedules.iter().map(|schedule| &schedule.job).chain(calls.iter().map(|call| &call.job));
        let all = plans.iter().flat_map(JobPlan::with_children).chain(others());
        Plans {
            by_name: all.map(|plan| (plan.name.clone(), plan.clone())).collect(),
            outermost: plans.iter().map(|plan| plan.name.clone()).collect(),
            scheduled: others().map(|job| job.name.clone()).collect(),
        }
    }

    /// Those that are submitted; others come with them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &JobPlan> {
        self.outermost.iter().filter_map(|name| self.by_name.get(name))
    }

    pub(crate) fn scheduled(&self) -> impl Iterator<Item = &JobPlan> {
        self.scheduled.iter().filter_map(|name| self.by_name.get(name))
    }

    pub(crate) fn named(&self, task: &str) -> Option<&JobPlan> {
        self.by_name.get(task)
    }

    pub(crate) fn job(&self, rows: &Rows, id: JobId) -> Option<&JobPlan> {
        self.by_name.get(&rows.job(id)?.task)
    }

    pub(crate) fn step(&self, rows: &Rows, place: Place) -> Option<&StepPlan> {
        let plan = self.job(rows, place.job)?;
        match plan.steps.get(place.step.get()) {
            None => plan.find(rows.step(place)?.item_of()?),
            step => step,
        }
    }
}
