//! What jobs of a job have, and those that follow on one: all that a submitted one can have. Dice of their own.

use super::{HookWork, JobPlan};
use crate::dice::Dice;

/// Of the steps of such jobs, of which there are few.
const MANY: f64 = 0.2;
const GATED: f64 = 0.12;

impl JobPlan {
    /// In two worlds of five.
    pub(super) fn roll_deeper(jobs: &mut [JobPlan], dice: &mut Dice) {
        if dice.chance(0.4) {
            jobs.iter_mut().for_each(|job| job.deepen_others(dice));
        }
    }

    pub(super) fn deepen_others(&mut self, dice: &mut Dice) {
        for child in self.steps.iter_mut().filter_map(|step| step.child.as_mut()) {
            child.job.deepen(dice);
            child.job.roll_hooks(dice, 0);
            child.job.roll_mails(dice);
            child.job.deepen_others(dice);
        }
        for hook in &mut self.hooks {
            if let HookWork::Job(job) = &mut hook.work {
                job.deepen(dice);
                job.deepen_others(dice);
            }
        }
    }

    fn deepen(&mut self, dice: &mut Dice) {
        self.steps.iter_mut().for_each(|step| step.roll_fan_often(dice, MANY));
        // What it begins has none yet.
        self.roll_lists(dice);
        for step in &mut self.steps {
            step.roll_gate_often(dice, GATED);
            step.roll_clean(dice);
        }
        self.roll_files(dice);
        self.roll_always(dice);
    }
}
