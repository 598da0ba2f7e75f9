//! Steps that leave files, and others that want them.

use protocol::features;

use super::{JobPlan, Kind, StepPlan};
use crate::dice::Dice;

/// Where files go that are kept apart.
pub(crate) const APART: &str = "of/others";

impl JobPlan {
    /// Lets some steps leave files, and some of those that need them fetch them. What has a time of its own stays as it is: it
    /// would have to share that with the files.
    pub(super) fn roll_files(&mut self, dice: &mut Dice) {
        if !dice.chance(0.3) {
            return;
        }
        for ix in 0..self.steps.len() {
            let step = &self.steps[ix];
            if !step.is_plain() || step.timeout.is_some() {
                continue;
            }
            let leaves = dice.chance(0.5);
            let needs: Vec<usize> =
                step.needs.iter().map(|need| need.step).filter(|at| self.steps[*at].files).collect();
            let fetches = dice.pick(&needs).copied().filter(|_| dice.chance(0.7));
            let step = &mut self.steps[ix];
            (step.files, step.fetches) = (leaves, fetches);
        }
    }

    /// Lets some steps leave their files however they end: of those that leave some anyway, and of those that fail or have a time
    /// of their own, which is what this is for.
    pub(super) fn roll_always(&mut self, dice: &mut Dice) {
        if !dice.chance(0.3) {
            return;
        }
        for step in self.steps.iter_mut().filter(|step| step.is_plain()) {
            let share = if step.files || step.timeout.is_some() || step.fails() { 0.6 } else { 0.2 };
            if dice.chance(share) {
                (step.files, step.always) = (true, true);
            }
        }
    }
}

impl StepPlan {
    /// One program does it, once.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Work(_)) && self.fan.is_none() && self.child.is_none()
    }

    fn fails(&self) -> bool {
        matches!(self.kind, Kind::Work(behaviour) if behaviour.first_code != 0)
    }

    /// What its worker must be able to do.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        let needs = [
            (features::ARTIFACTS, self.files || self.fetches.is_some()),
            (features::CLEANUP, self.clean.is_some()),
            (features::SECRETS, self.secret.is_some()),
        ];
        needs.into_iter().filter(|(_, needed)| *needed).map(|(feature, _)| feature).collect()
    }

    pub(super) fn write_files(&self, steps: &[StepPlan], text: &mut String) {
        let when = if self.always { ", when: always" } else { "" };
        let optional = if self.optional { ", optional: true" } else { "" };
        match self.files || self.always {
            true if when.is_empty() && optional.is_empty() => text.push_str("    artifacts: [ out ]\n"),
            true => text.push_str(&format!("    artifacts: {{ paths: [ out ]{when}{optional} }}\n")),
            false => {}
        }
        match self.fetches.map(|from| &steps[from].name) {
            Some(from) if self.apart => text.push_str(&format!("    fetch: [ {{ from: {from}, to: {APART} }} ]\n")),
            Some(from) => text.push_str(&format!("    fetch: [ {from} ]\n")),
            None => {}
        }
    }
}
