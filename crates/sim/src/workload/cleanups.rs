//! What is executed after a step was stopped.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Behaviour, Kind, StepPlan, quoted};
use crate::dice::Dice;
use crate::millis;

/// What a server waits for files that are left in any case; their worker gives them up ten seconds before.
const STORE_AFTER_STOP: Duration = Duration::from_secs(60);

/// A program that puts things in order, and the time that it has for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanPlan {
    pub does: Behaviour,
    #[serde(with = "millis")]
    pub budget: Duration,
}

impl StepPlan {
    /// How long its processes may take to end when they are told to: its grace, and its cleanup if it has one.
    pub(crate) fn end_time(&self) -> Duration {
        self.grace + self.clean.map(|clean| clean.budget).unwrap_or_default()
    }

    /// How long an order to stop may take: until they have ended, and what it leaves in any case is stored.
    pub(crate) fn stop_time(&self) -> Duration {
        self.end_time() + if self.always { STORE_AFTER_STOP } else { Duration::ZERO }
    }

    /// Every fifth has one; of these about one in eight takes longer than it may.
    pub(super) fn roll_clean(&mut self, dice: &mut Dice) {
        if !matches!(self.kind, Kind::Work(_)) || self.child.is_some() || !dice.chance(0.2) {
            return;
        }
        let budget = millis::whole(dice.duration(Duration::from_secs(1), Duration::from_secs(40)));
        let share = if dice.chance(0.2) { 3.0 } else { 0.8 };
        let takes = millis::whole(dice.duration(Duration::from_millis(5), budget.mul_f64(share)));
        let code = *dice.pick(&[0, 0, 0, 1, -11]).unwrap_or(&0);
        let does = Behaviour {
            takes,
            lines: dice.between(0, 5),
            first_code: code,
            later_code: code,
            first_times: 1,
            stubborn: true,
            stray: dice.chance(0.2),
            output: 0,
        };
        self.clean = Some(CleanPlan { does, budget });
    }

    /// What it leaves out is as the defaults say.
    pub(super) fn write_cancel(&self, defaults: Option<&StepPlan>, text: &mut String) {
        let mut cancel = format!("signal: {}", self.signal.unwrap_or("TERM"));
        if defaults.is_none_or(|said| said.grace != self.grace) {
            let _ = write!(cancel, ", grace: {}ms", self.grace.as_millis());
        }
        if let Some(CleanPlan { does, budget }) = &self.clean {
            let _ = writeln!(text, "    cleanup: {}", quoted(&does.argv()));
            let _ = write!(cancel, ", cleanup: {}ms", budget.as_millis());
        }
        let _ = writeln!(text, "    cancel: {{ {cancel} }}");
    }
}
