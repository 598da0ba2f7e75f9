//! Inputs that matter, and what a task file can say in another way: conditions on inputs and on how steps ended, a group's name
//! and a job's input from templates, defaults, other signals. Dice of their own.

use std::fmt::Write as _;

use super::{Condition, JobPlan, Kind, NeedPlan, StepPlan, Word};
use crate::dice::Dice;

const SIGNALS: [Word; 3] = ["INT", "HUP", "USR1"];

const STATES: [Word; 4] = ["success", "failed", "cancelled", "skipped"];

impl JobPlan {
    /// In two worlds of five.
    pub(super) fn roll_inputs(jobs: &mut [JobPlan], dice: &mut Dice) {
        if dice.chance(0.4) {
            jobs.iter_mut().for_each(|job| job.roll_input(dice));
        }
    }

    pub(super) fn roll_input(&mut self, dice: &mut Dice) {
        self.input = dice.chance(0.6).then(|| dice.between(0, 9) as i64);
        self.roll_words(dice);
    }

    fn roll_words(&mut self, dice: &mut Dice) {
        (self.templated, self.defaults) = (dice.chance(0.6), dice.chance(0.3));
        for step in &mut self.steps {
            step.roll_words(dice);
            if let Some(child) = &mut step.child {
                child.job.roll_words(dice);
            }
        }
    }

    /// The step that speaks for all that say nothing else.
    pub(super) fn default_step(&self) -> Option<&StepPlan> {
        self.steps
            .iter()
            .find(|step| matches!(step.kind, Kind::Work(_)) && step.child.is_none())
            .filter(|_| self.defaults)
    }

    pub(super) fn write_defaults(&self, text: &mut String) {
        if let Some(step) = self.default_step() {
            let (effects, stop, grace) = (step.effects, step.on_disconnect(), step.grace.as_millis());
            let said = format!("effects: {effects}, on_disconnect: {stop}, cancel: {{ grace: {grace}ms }}");
            let _ = writeln!(text, "env: {{ GIVEN: \"{{{{ input.n or 0 }}}}\" }}\ndefaults: {{ {said} }}");
        }
    }
}

impl StepPlan {
    fn roll_words(&mut self, dice: &mut Dice) {
        let need = dice.pick(&self.needs).map(|NeedPlan { step, .. }| *step);
        if self.condition == Condition::Success {
            match (need, dice.below(6)) {
                (Some(step), 0) => {
                    let state = *dice.pick(&STATES).unwrap_or(&"success");
                    self.condition = Condition::StateIs { step, state };
                }
                (_, 1) => self.condition = Condition::InputAbove { number: dice.between(0, 6) as i64 },
                _ => {}
            }
        }
        if self.child.is_some() && self.fan.is_none() && dice.chance(0.6) {
            self.hands_on = need;
        }
        self.signal = dice.pick(&SIGNALS).copied().filter(|_| dice.chance(0.2));
        (self.apart, self.optional) = (dice.chance(0.5) && self.fetches.is_some(), dice.chance(0.3) && self.files);
    }

    pub(super) fn on_disconnect(&self) -> &'static str {
        if self.stop { "stop" } else { "keep" }
    }
}
