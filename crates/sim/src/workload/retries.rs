//! Whether a step is tried again, and how long it waits before that.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{JobPlan, Word, words};
use crate::dice::Dice;
use crate::millis;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryPlan {
    pub attempts: u32,
    #[serde(deserialize_with = "words")]
    pub on: Vec<Word>,
    #[serde(with = "millis")]
    pub delay: Duration,
    /// Each further delay is the one before times this.
    #[serde(default = "doubles", skip_serializing_if = "is_double")]
    pub backoff: f64,
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Duration>,
    /// It takes a share between half and all of it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub jitter: bool,
}

const DOUBLE: f64 = 2.0;

fn doubles() -> f64 {
    DOUBLE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_double(backoff: &f64) -> bool {
    backoff.total_cmp(&DOUBLE).is_eq()
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_yes(jitter: &bool) -> bool {
    *jitter
}

impl RetryPlan {
    /// With delays that double, and chance in each.
    pub fn of(attempts: u32, on: Vec<Word>, delay: Duration) -> RetryPlan {
        RetryPlan { attempts, on, delay, backoff: DOUBLE, max_delay: None, jitter: true }
    }

    pub(super) fn roll(dice: &mut Dice) -> RetryPlan {
        let mut on: Vec<Word> = Vec::new();
        for reason in ["failure", "timeout", "worker_lost", "\"exit:75\""] {
            if dice.chance(0.5) {
                on.push(reason);
            }
        }
        // A die of its own: what is rolled after it stays what it is.
        if dice.clone().chance(0.3) {
            on.push("\"signal:9\"");
        }
        if on.is_empty() {
            on.push("failure");
        }
        let attempts = dice.between(2, 4) as u32;
        RetryPlan::of(attempts, on, millis::whole(dice.duration(Duration::from_millis(100), Duration::from_secs(20))))
    }

    fn roll_delays(&mut self, dice: &mut Dice) {
        self.jitter = dice.chance(0.5);
        self.backoff = *dice.pick(&[1.0, 1.5, DOUBLE, 3.0]).unwrap_or(&DOUBLE);
        let most = millis::whole(self.delay.mul_f64(1.0 + 3.0 * dice.fraction()));
        self.max_delay = dice.chance(0.4).then_some(most);
    }

    /// The longest that it waits after so many executions.
    pub(crate) fn longest_delay(&self, executed: u32) -> Duration {
        let power = self.backoff.powi(executed.saturating_sub(1).min(EXECUTIONS_MAX) as i32);
        self.delay.mul_f64(power).min(self.max_delay.unwrap_or(Duration::MAX))
    }

    /// And the shortest.
    pub(crate) fn shortest_delay(&self, executed: u32) -> Duration {
        let longest = self.longest_delay(executed);
        if self.jitter { longest / 2 } else { longest }
    }

    /// All of its delays together, at most.
    pub(crate) fn delays(&self) -> Duration {
        (1..=self.attempts.min(EXECUTIONS_MAX)).map(|executed| self.longest_delay(executed)).sum()
    }

    pub(super) fn write(&self, text: &mut String) {
        let RetryPlan { attempts, on, delay, backoff, max_delay, jitter } = self;
        let (on, delay) = (on.join(", "), delay.as_millis());
        let most = max_delay.map(|most| format!(", max_delay: {}ms", most.as_millis())).unwrap_or_default();
        let policy =
            format!("attempts: {attempts}, on: [{on}], delay: {delay}ms, backoff: {backoff}, jitter: {jitter}");
        let _ = writeln!(text, "    retry: {{ {policy}{most} }}");
    }
}

/// No plan wants as many.
const EXECUTIONS_MAX: u32 = 8;

impl JobPlan {
    /// Lets the delays of some policies grow otherwise, up to a bound or not, and be left to chance or not.
    pub(super) fn roll_delays(&mut self, dice: &mut Dice) {
        for step in &mut self.steps {
            if let Some(retry) = step.retry.as_mut().filter(|_| dice.chance(0.5)) {
                retry.roll_delays(dice);
            }
            if let Some(child) = &mut step.child {
                child.job.roll_delays(dice);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_their_bound() {
        let seconds = Duration::from_secs;
        let plan = RetryPlan { max_delay: Some(seconds(5)), ..RetryPlan::of(4, vec!["failure"], seconds(2)) };
        let longest: Vec<Duration> = (1..4).map(|executed| plan.longest_delay(executed)).collect();
        assert_eq!(longest, [seconds(2), seconds(4), seconds(5)]);
        assert_eq!(plan.shortest_delay(2), seconds(2));
        let certain = RetryPlan { jitter: false, backoff: 1.0, ..plan };
        assert_eq!((certain.shortest_delay(1), certain.shortest_delay(3)), (seconds(2), seconds(2)));
    }

    #[test]
    fn what_is_not_said_is_what_it_always_was() {
        let plan = RetryPlan::of(2, vec!["failure"], Duration::from_secs(1));
        let text = serde_json::to_string(&plan).expect("JSON");
        assert_eq!(text, r#"{"attempts":2,"on":["failure"],"delay":1000}"#);
        assert_eq!(serde_json::from_str::<RetryPlan>(&text).expect("a plan"), plan);
    }
}
