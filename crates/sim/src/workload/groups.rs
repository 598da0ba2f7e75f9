//! Concurrency groups: some jobs share one, and only so many of them run at once.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Condition, JobPlan};
use crate::dice::Dice;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPlan {
    pub name: String,
    pub limit: u32,
}

impl JobPlan {
    /// Puts some of the jobs into one of two groups, in some of the worlds.
    pub(super) fn roll_groups(jobs: &mut [JobPlan], dice: &mut Dice) {
        if !dice.chance(0.3) {
            return;
        }
        for job in jobs {
            let group = if dice.chance(0.6) { ("ga", 1) } else { ("gb", 2) };
            if dice.chance(0.4) {
                job.join(group.0, group.1);
            }
        }
    }

    /// Not where the job's own clock or the end of others decides more than its steps: what the model expects of those is
    /// about jobs that do not wait.
    pub(crate) fn join(&mut self, name: &str, limit: u32) {
        let plain = |condition: Condition| matches!(condition, Condition::Success | Condition::OutputAbove { .. });
        if self.timeout.is_none() && self.expires.is_none() && self.steps.iter().all(|step| plain(step.condition)) {
            self.group = Some(GroupPlan { name: name.to_owned(), limit });
        }
    }

    pub(super) fn write_group(&self, text: &mut String) {
        if let Some(GroupPlan { name, limit }) = &self.group {
            let _ = writeln!(text, "concurrency: {{ group: {name}, limit: {limit} }}");
        }
    }
}
