//! Who submits: in most worlds one person everything, in others several, whose turns among each other then count.

use serde::{Deserialize, Deserializer};

use super::{JobPlan, PEOPLE, SUBMITTER, Word};
use crate::dice::Dice;

impl JobPlan {
    pub(super) fn roll_submitters(jobs: &mut [JobPlan], dice: &mut Dice) {
        if !dice.chance(0.4) {
            return;
        }
        for job in jobs {
            job.by = dice.pick(&PEOPLE).copied().filter(|person| *person != SUBMITTER);
        }
    }

    pub(crate) fn submitter(&self) -> Word {
        self.by.unwrap_or(SUBMITTER)
    }
}

/// One of those who submit.
pub(super) fn person<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Word>, D::Error> {
    let known = |name: String| {
        let found = PEOPLE.into_iter().find(|person| *person == name);
        found.ok_or_else(|| serde::de::Error::custom(format!("nobody is named {name}")))
    };
    Option::<String>::deserialize(deserializer)?.map(known).transpose()
}
