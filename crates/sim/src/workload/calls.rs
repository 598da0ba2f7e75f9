//! Tasks that are called from outside, with dice of their own. Whoever calls repeats a delivery that was not answered, and now and
//! then one that was.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::JobPlan;
use super::schedules::{Rest, small_step};
use crate::dice::Dice;
use crate::millis;
use crate::setup::Setup;

/// A small job that somebody outside calls for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallPlan {
    pub job: JobPlan,
    /// When it is called, each time for something else.
    pub at_ms: Vec<u64>,
    /// When somebody lets it rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
}

impl CallPlan {
    /// Those of this seed; most have none.
    pub fn roll_all(seed: u64, setup: &Setup) -> Vec<CallPlan> {
        if Dice::new(seed, "has calls").chance(0.15) { CallPlan::roll_some(seed, setup) } else { Vec::new() }
    }

    /// At least one.
    pub fn roll_some(seed: u64, setup: &Setup) -> Vec<CallPlan> {
        let mut dice = Dice::new(seed, "calls");
        let count = dice.between(1, 2);
        (0..count).map(|number| CallPlan::roll(number, setup, &mut dice)).collect()
    }

    fn roll(number: u64, setup: &Setup, dice: &mut Dice) -> CallPlan {
        let job = JobPlan::plain(&format!("call-{number}"), vec![small_step(dice)]);
        let count = dice.between(3, 12);
        let within = setup.length.mul_f64(0.9);
        let mut at_ms: Vec<u64> =
            (0..count).map(|_| millis::count(dice.duration(Duration::from_secs(10), within))).collect();
        at_ms.sort_unstable();
        CallPlan { job, at_ms, rest: if dice.chance(0.6) { Some(Rest::roll(dice)) } else { None } }
    }

    /// The trigger's name, as the product has it.
    pub fn trigger(&self) -> String {
        let name = &self.job.name;
        format!("{name}:webhook:{name}")
    }

    pub fn text(&self) -> String {
        let name = &self.job.name;
        format!("{}triggers: [{{ webhook: {name}, secret: HOOK }}]\n", self.job.text())
    }
}
