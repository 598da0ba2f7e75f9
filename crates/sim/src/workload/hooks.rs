//! What follows on a job's end.

use std::fmt::Write as _;

use engine::definition::Occasion;
use serde::{Deserialize, Serialize};

use super::{Behaviour, JobPlan, Kind, LONGEST_ITEM, StepPlan};
use crate::dice::Dice;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookPlan {
    pub on: On,
    pub work: HookWork,
}

/// In the order in which a task has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    Success,
    Error,
    Cancel,
    Recovered,
    Notice,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookWork {
    Job(Box<JobPlan>),
    Word,
    Mail,
}

impl On {
    fn occasion(self) -> Occasion {
        match self {
            On::Success => Occasion::Success,
            On::Error => Occasion::Error,
            On::Cancel => Occasion::Cancel,
            On::Recovered => Occasion::Recovered,
            On::Notice => Occasion::Notice,
        }
    }

    /// Whether a job that ended so is followed; none where its rows do not say.
    pub(crate) fn follows(self, state: &str, code: Option<&str>) -> Option<bool> {
        let timed_out = code == Some("job_timeout");
        match self {
            On::Success => Some(state == "success"),
            On::Error => Some(state == "failed" || timed_out),
            On::Cancel => Some(state == "cancelled" && !timed_out),
            On::Recovered => (state != "success").then_some(false),
            // It follows on something else.
            On::Notice => None,
        }
    }
}

impl JobPlan {
    /// Lets something follow on its end, and on that of what follows: there it means nothing.
    pub(super) fn roll_hooks(&mut self, dice: &mut Dice, levels: u32) {
        if !dice.chance(0.15) {
            return;
        }
        for number in 0..dice.between(1, 3) {
            let on =
                *dice.pick(&[On::Success, On::Success, On::Error, On::Cancel, On::Recovered]).unwrap_or(&On::Error);
            let work = match dice.chance(0.5) {
                true => HookWork::Word,
                false => HookWork::Job(Box::new(self.roll_hook(number, dice, levels))),
            };
            self.hooks.push(HookPlan { on, work });
        }
        self.hooks.sort_by_key(|hook| hook.on);
    }

    pub(super) fn roll_hook(&self, number: u64, dice: &mut Dice, levels: u32) -> JobPlan {
        let behaviour = Behaviour::roll(dice);
        let takes = behaviour.takes.min(LONGEST_ITEM);
        let step = StepPlan { waits_for_worker: true, ..StepPlan::plain("s0", Behaviour { takes, ..behaviour }) };
        let mut job = JobPlan::plain(&format!("{}-h{number}", self.name), vec![step]);
        if levels > 0 {
            job.roll_children(dice, 0);
            job.roll_hooks(dice, levels - 1);
        }
        debug_assert!(job.steps.iter().all(|step| matches!(step.kind, Kind::Work(_))));
        job
    }

    /// Lets some words go by mail, of this job and of all that it begins or that follows on it.
    pub(super) fn roll_mails(&mut self, dice: &mut Dice) {
        for hook in &mut self.hooks {
            match &mut hook.work {
                HookWork::Job(job) => job.roll_mails(dice),
                work if dice.chance(0.3) => *work = HookWork::Mail,
                HookWork::Word | HookWork::Mail => {}
            }
        }
        self.steps.iter_mut().filter_map(|step| step.child.as_mut()).for_each(|child| child.job.roll_mails(dice));
    }

    pub(super) fn write_hooks(&self, text: &mut String) {
        for on in [On::Success, On::Error, On::Cancel, On::Recovered, On::Notice] {
            let of = |hook: &&HookPlan| hook.on == on;
            let words: Vec<String> = self.hooks.iter().filter(of).map(|hook| self.hook_text(hook)).collect();
            if !words.is_empty() {
                let _ = writeln!(text, "{}: [{}]", on.occasion().word(), words.join(", "));
            }
        }
    }

    fn hook_text(&self, hook: &HookPlan) -> String {
        match &hook.work {
            HookWork::Word => format!("{{ webhook: \"http://outside/{}\" }}", self.name),
            HookWork::Mail => format!("{{ mail: \"{}@outside.example\" }}", self.name),
            HookWork::Job(job) => format!("{{ task: {}, with: {{ n: 7 }} }}", job.name),
        }
    }

    /// The jobs that follow on its end.
    pub(super) fn following(&self) -> impl Iterator<Item = &JobPlan> {
        self.hooks.iter().filter_map(|hook| match &hook.work {
            HookWork::Job(job) => Some(&**job),
            HookWork::Word | HookWork::Mail => None,
        })
    }
}
