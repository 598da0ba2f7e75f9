//! Tasks that start by themselves, with dice of their own: what is rolled besides stays what it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use server::schedule::Book;
use server::settings::DefinitionSettings;
use server::tasks::TaskRegistry;
use std::sync::Arc;
use store::rows::TaskRow;

use crate::dice::Dice;
use crate::millis;
use crate::servers::DAWN;

use super::{Behaviour, JobPlan, StepPlan};

/// A small job that comes every few minutes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedulePlan {
    pub job: JobPlan,
    /// A part of an hour, so that the times are the same distance from each other.
    pub minutes: u64,
    /// Whether what was missed is made up for.
    pub once: bool,
    #[serde(with = "millis")]
    pub jitter: Duration,
}

impl SchedulePlan {
    /// Those of this seed; most have none.
    pub fn roll_all(seed: u64) -> Vec<SchedulePlan> {
        if Dice::new(seed, "has schedules").chance(0.15) { SchedulePlan::roll_some(seed) } else { Vec::new() }
    }

    /// At least one.
    pub fn roll_some(seed: u64) -> Vec<SchedulePlan> {
        let mut dice = Dice::new(seed, "schedules");
        (0..dice.between(1, 3)).map(|number| SchedulePlan::roll(number, &mut dice)).collect()
    }

    fn roll(number: u64, dice: &mut Dice) -> SchedulePlan {
        let behaviour = Behaviour { takes: millis::whole(dice.duration(SHORTEST, LONGEST)), ..Behaviour::roll(dice) };
        let mut step = StepPlan::plain("s0", behaviour);
        step.effects = dice.pick(&["none", "idempotent", "writes"]).unwrap_or(&"writes");
        let job = JobPlan {
            at: Duration::ZERO,
            name: format!("sched-{number}"),
            timeout: None,
            expires: None,
            priority: 0,
            steps: vec![step],
            hooks: Vec::new(),
        };
        SchedulePlan {
            job,
            minutes: *dice.pick(&[2, 3, 5, 10, 15]).unwrap_or(&5),
            once: dice.chance(0.5),
            jitter: if dice.chance(0.3) { millis::whole(dice.duration(SHORTEST, JITTER_MAX)) } else { Duration::ZERO },
        }
    }

    /// The trigger's name, as the product has it.
    pub fn trigger(&self) -> String {
        format!("{}:cron:1", self.job.name)
    }

    pub fn text(&self) -> String {
        let (minutes, jitter) = (self.minutes, self.jitter.as_millis());
        let missed = if self.once { "once" } else { "skip" };
        let trigger = format!("cron: '*/{minutes} * * * *', missed: {missed}, jitter: {jitter}ms");
        format!("{}triggers: [{{ {trigger} }}]\n", self.job.text())
    }
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(20);

/// Less than the shortest distance between two times.
const JITTER_MAX: Duration = Duration::from_secs(60);

/// What servers know of these, by the way on which tasks come to them.
pub(crate) fn book(plans: &[SchedulePlan]) -> Arc<Book> {
    let row = |plan: &SchedulePlan| TaskRow {
        name: plan.job.name.clone(),
        source: plan.text(),
        pushed_at: DAWN,
        pushed_by: super::SUBMITTER.to_owned(),
    };
    let rows: Vec<TaskRow> = plans.iter().map(row).collect();
    let book = TaskRegistry::new(DefinitionSettings::default(), None, &rows, DAWN).book();
    assert_eq!(book.iter().count(), plans.len(), "the world made a bad task");
    book
}
