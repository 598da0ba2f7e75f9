//! Steps that run only if their job is cancelled.

use std::time::Duration;

use super::{Behaviour, Condition, JobPlan, NeedPlan, StepPlan};
use crate::dice::Dice;
use crate::millis;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(20);

/// However what it waits for ends.
const IN_ANY_CASE: [&str; 4] = ["success", "failed", "cancelled", "skipped"];

impl JobPlan {
    /// Adds one to some of the jobs, mostly to those that have a time of their own, which cancels them. Not where others
    /// decide when a job begins: see [`JobPlan::join`].
    pub(super) fn roll_cancelled(&mut self, dice: &mut Dice) {
        for child in self.steps.iter_mut().filter_map(|step| step.child.as_mut()) {
            child.job.roll_cancelled(dice);
        }
        let chance = if self.timeout.is_some() { 0.5 } else { 0.12 };
        if !dice.chance(chance) || self.group.is_some() {
            return;
        }
        let behaviour = Behaviour { takes: millis::whole(dice.duration(SHORTEST, LONGEST)), ..Behaviour::roll(dice) };
        let mut needs = Vec::new();
        for step in 0..self.steps.len() {
            if dice.chance(1.5 / self.steps.len() as f64) {
                let on = if dice.chance(0.3) { vec!["success"] } else { IN_ANY_CASE.to_vec() };
                needs.push(NeedPlan { step, on });
            }
        }
        if needs.is_empty() {
            needs.push(NeedPlan { step: self.steps.len() - 1, on: IN_ANY_CASE.to_vec() });
        }
        let name = format!("s{}", self.steps.len());
        let condition = Condition::Cancelled;
        let effects = if dice.chance(0.5) { "idempotent" } else { "writes" };
        let step = StepPlan { needs, condition, effects, waits_for_worker: true, ..StepPlan::plain(&name, behaviour) };
        self.steps.push(step);
    }
}
