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

use super::{Behaviour, CallPlan, JobPlan, StepPlan};

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
    /// When somebody lets it rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    #[serde(with = "millis")]
    pub from: Duration,
    #[serde(with = "millis")]
    pub until: Duration,
}

impl Rest {
    pub(super) fn roll(dice: &mut Dice) -> Rest {
        let from = millis::whole(dice.duration(Duration::ZERO, RESTS_FROM_MAX));
        Rest { from, until: from + millis::whole(dice.duration(SHORTEST, REST_MAX)) }
    }
}

impl SchedulePlan {
    /// Those of this seed; most have none.
    pub fn roll_all(seed: u64) -> Vec<SchedulePlan> {
        if Dice::new(seed, "has schedules").chance(0.15) { SchedulePlan::roll_some(seed) } else { Vec::new() }
    }

    /// At least one.
    pub fn roll_some(seed: u64) -> Vec<SchedulePlan> {
        let (mut dice, mut rests) = (Dice::new(seed, "schedules"), Dice::new(seed, "rests"));
        let mut groups = Dice::new(seed, "groups of schedules");
        let count = dice.between(1, 3);
        let roll = |number| {
            let rest = if rests.chance(0.5) { Some(Rest::roll(&mut rests)) } else { None };
            let mut plan = SchedulePlan { rest, ..SchedulePlan::roll(number, &mut dice) };
            plan.job.roll_group_of_schedule(&mut groups);
            plan
        };
        (0..count).map(roll).collect()
    }

    fn roll(number: u64, dice: &mut Dice) -> SchedulePlan {
        let job = JobPlan::plain(&format!("sched-{number}"), vec![small_step(dice)]);
        SchedulePlan {
            job,
            minutes: *dice.pick(&[2, 3, 5, 10, 15]).unwrap_or(&5),
            once: dice.chance(0.5),
            jitter: if dice.chance(0.3) { millis::whole(dice.duration(SHORTEST, JITTER_MAX)) } else { Duration::ZERO },
            rest: None,
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

/// Over in some seconds.
pub(super) fn small_step(dice: &mut Dice) -> StepPlan {
    let behaviour = Behaviour { takes: millis::whole(dice.duration(SHORTEST, LONGEST)), ..Behaviour::roll(dice) };
    let mut step = StepPlan::plain("s0", behaviour);
    step.effects = dice.pick(&["none", "idempotent", "writes"]).unwrap_or(&"writes");
    step
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(20);

/// It is over before the faults are.
const RESTS_FROM_MAX: Duration = Duration::from_secs(40 * 60);
const REST_MAX: Duration = Duration::from_secs(15 * 60);

/// Less than the shortest distance between two times.
const JITTER_MAX: Duration = Duration::from_secs(60);

/// What servers know of these, by the way on which tasks come to them.
pub(crate) fn book(plans: &[SchedulePlan], calls: &[CallPlan]) -> Arc<Book> {
    let row = |(job, source): (&JobPlan, String)| TaskRow {
        name: job.name.clone(),
        source,
        pushed_at: DAWN,
        pushed_by: super::SUBMITTER.to_owned(),
    };
    let scheduled = plans.iter().map(|plan| (&plan.job, plan.text()));
    let rows: Vec<TaskRow> = scheduled.chain(calls.iter().map(|call| (&call.job, call.text()))).map(row).collect();
    let book = TaskRegistry::new(DefinitionSettings::default(), None, &rows, DAWN).book();
    assert_eq!(book.iter().count(), rows.len(), "the world made a bad task");
    book
}
