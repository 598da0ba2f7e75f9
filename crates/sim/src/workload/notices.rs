//! What is expected of jobs and steps, and who hears if it takes longer.

use super::hooks::{HookPlan, HookWork, On};
use super::{JobPlan, Kind, roll_time};
use crate::dice::Dice;

/// No job has so many hooks.
const NOTICED: u64 = 9;

impl JobPlan {
    /// Expects something of it, of its steps and of what they begin; mostly more than they need.
    pub(super) fn roll_notices(&mut self, dice: &mut Dice) {
        self.expect = dice.chance(0.4).then(|| roll_time(5, 300, dice));
        for step in &mut self.steps {
            if matches!(step.kind, Kind::Work(_)) && dice.chance(0.4) {
                step.expect = Some(roll_time(1, 60, dice));
            }
            if let Some(child) = &mut step.child {
                child.job.roll_notices(dice);
            }
        }
        if dice.chance(0.6) {
            self.hooks.push(HookPlan { on: On::Notice, work: HookWork::Word });
        }
    }

    /// Lets jobs follow on the notices of some of those of which something is expected.
    pub(super) fn roll_noticed(&mut self, dice: &mut Dice) {
        let expects = self.expect.is_some() || self.steps.iter().any(|step| step.expect.is_some());
        if expects && dice.chance(0.4) {
            let job = self.roll_hook(NOTICED, dice, 0);
            self.hooks.push(HookPlan { on: On::Notice, work: HookWork::Job(Box::new(job)) });
        }
        for child in self.steps.iter_mut().filter_map(|step| step.child.as_mut()) {
            child.job.roll_noticed(dice);
        }
    }
}
