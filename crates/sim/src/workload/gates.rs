//! What holds steps back: reviewers and waits, of `approve` steps and of environments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use server::settings::DefinitionSettings;
use spec::task::Environment;

use super::{JobPlan, Kind, StepPlan, roll_time};
use crate::dice::Dice;
use crate::millis;

/// Who submits everything, where nothing else is said.
pub(crate) const SUBMITTER: &str = "ann";

/// Those who can say yes, enough for every gate.
pub(crate) const PEOPLE: [&str; 4] = [SUBMITTER, "ben", "cat", "dan"];

/// What an environment gives its reviewers unless it says otherwise.
const HOLD_EXPIRES: Duration = Duration::from_secs(24 * 3600);

/// Rules of an `approve` step, or of the environment that a step has to itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatePlan {
    /// How many different people must say yes; none only for an environment.
    pub reviewers: u32,
    pub allow_submitter: bool,
    /// Only for an environment.
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub wait: Option<Duration>,
}

impl StepPlan {
    pub(super) fn roll_gate(&mut self, dice: &mut Dice) {
        self.roll_gate_often(dice, 0.05);
    }

    /// `chance`: of an environment.
    pub(super) fn roll_gate_often(&mut self, dice: &mut Dice, chance: f64) {
        let (chance, least) = match self.kind {
            Kind::Approve => (0.6, 1),
            Kind::Work(_) => (chance, 0),
        };
        if !dice.chance(chance) {
            return;
        }
        let reviewers = dice.between(least, 3) as u32;
        let waits = reviewers == 0 || dice.chance(0.5);
        let wait = (waits && self.kind != Kind::Approve).then(|| roll_time(1, 300, dice));
        self.gate = Some(GatePlan { reviewers, allow_submitter: dice.chance(0.6), wait });
    }

    /// How many different people must say yes before it goes on.
    pub(crate) fn reviewers(&self) -> u32 {
        let of_kind = u32::from(self.kind == Kind::Approve);
        self.gate.as_ref().map_or(of_kind, |gate| gate.reviewers)
    }

    /// Whether enough of those who may have said yes.
    pub(crate) fn is_approved(&self, by: &BTreeSet<&str>, submitter: &str) -> bool {
        let own = self.gate.as_ref().is_none_or(|gate| gate.allow_submitter);
        let counted = by.iter().filter(|person| own || **person != submitter).count();
        counted >= self.reviewers() as usize
    }

    pub(super) fn write_approve(&self, text: &mut String) {
        let mut keys = String::from("message: go on?");
        if let Some(gate) = &self.gate {
            let _ = write!(keys, ", reviewers: {}, allow_submitter: {}", gate.reviewers, gate.allow_submitter);
        }
        if let Some(time) = self.hold_expires {
            let _ = write!(keys, ", expires: {}ms", time.as_millis());
        }
        let _ = writeln!(text, "    approve: {{ {keys} }}");
    }

    pub(super) fn write_environment(&self, job: &JobPlan, text: &mut String) {
        if self.gate.is_some() {
            let _ = writeln!(text, "    environment: {}", job.environment_of(self));
        }
    }

    fn environment(&self) -> Option<Environment> {
        let gate = self.gate.as_ref().filter(|_| self.kind != Kind::Approve)?;
        Some(Environment {
            reviewers: gate.reviewers,
            wait: gate.wait.unwrap_or_default(),
            hold_expires: self.hold_expires.unwrap_or(HOLD_EXPIRES),
            allow_submitter: gate.allow_submitter,
        })
    }
}

impl JobPlan {
    /// Each step has one to itself: those of other jobs have steps of the same name.
    fn environment_of(&self, step: &StepPlan) -> String {
        format!("{}-{}", self.name, step.name)
    }

    /// What the server's configuration adds to the task, and to those that its steps begin.
    pub(crate) fn settings(&self) -> DefinitionSettings {
        let all = self.with_children();
        let steps = all.iter().flat_map(|job| job.steps.iter().map(move |step| (job, step)));
        let named = |(job, step): (&&JobPlan, &StepPlan)| Some((job.environment_of(step), step.environment()?));
        let environments: BTreeMap<String, Environment> = steps.filter_map(named).collect();
        DefinitionSettings::default().with_environments(&environments)
    }
}
