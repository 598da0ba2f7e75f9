//! Concurrency groups: some jobs share one, and only so many of them run at once. So do, by dice of their own, some that steps
//! begin, and some that start by themselves.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Condition, JobPlan, Kind, StepPlan};
use crate::dice::Dice;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPlan {
    pub name: String,
    pub limit: u32,
    #[serde(default, skip_serializing_if = "is_queue")]
    pub when_full: WhenFull,
}

/// What becomes of one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    #[default]
    Queue,
    /// Whoever submits it is told no, and comes again later.
    Reject,
    CancelOldest,
}

/// Their names and limits.
const GROUPS: [(&str, u32); 2] = [("ga", 1), ("gb", 2)];

const OTHERS: [WhenFull; 3] = [WhenFull::Queue, WhenFull::Reject, WhenFull::CancelOldest];

impl WhenFull {
    fn word(self) -> &'static str {
        match self {
            WhenFull::Queue => "queue",
            WhenFull::Reject => "reject",
            WhenFull::CancelOldest => "cancel_oldest",
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_queue(when_full: &WhenFull) -> bool {
    *when_full == WhenFull::Queue
}

impl JobPlan {
    /// Puts some of the jobs into one of two groups, in some of the worlds.
    pub(super) fn roll_groups(jobs: &mut [JobPlan], dice: &mut Dice) {
        if dice.chance(0.3) {
            JobPlan::share_groups(jobs, dice);
        }
    }

    /// Where there are none yet: what happens to those who have a slot wants somebody to have one.
    pub(crate) fn ensure_groups(jobs: &mut [JobPlan], seed: u64) {
        if jobs.iter().all(|job| job.group.is_none()) {
            JobPlan::share_groups(jobs, &mut Dice::new(seed, "groups to cut"));
            JobPlan::roll_when_full(jobs, &mut Dice::new(seed, "full groups"));
        }
    }

    fn share_groups(jobs: &mut [JobPlan], dice: &mut Dice) {
        for job in jobs {
            let group = if dice.chance(0.6) { GROUPS[0] } else { GROUPS[1] };
            if dice.chance(0.4) {
                job.join(group.0, group.1, WhenFull::Queue);
            }
        }
    }

    /// Every other job of a group waits for a person besides.
    pub(crate) fn let_groups_ask(jobs: &mut [JobPlan], seed: u64) {
        let mut dice = Dice::new(seed, "approvals in groups");
        for job in jobs.iter_mut().filter(|job| job.group.is_some()) {
            if let (true, Some(Kind::Work(behaviour))) = (dice.chance(0.5), job.steps.first().map(|step| step.kind)) {
                let asks = StepPlan::plain(&format!("s{}", job.steps.len()), behaviour);
                job.steps.push(StepPlan { kind: Kind::Approve, ..asks });
            }
        }
    }

    /// In half of the worlds with groups not everybody waits for a turn.
    pub(super) fn roll_when_full(jobs: &mut [JobPlan], dice: &mut Dice) {
        if !dice.chance(0.5) {
            return;
        }
        for group in jobs.iter_mut().filter_map(|job| job.group.as_mut()) {
            group.when_full = *dice.pick(&OTHERS).unwrap_or(&WhenFull::Queue);
        }
    }

    /// Where jobs have groups, some of those that their steps begin have one too: often enough the one that their own job is in.
    pub(super) fn roll_groups_of_children(jobs: &mut [JobPlan], dice: &mut Dice) {
        if jobs.iter().all(|job| job.group.is_none()) || !dice.chance(0.6) {
            return;
        }
        let others = if dice.chance(0.5) { OTHERS.as_slice() } else { &OTHERS[..1] };
        jobs.iter_mut().for_each(|job| job.let_children_join(others, dice));
    }

    fn let_children_join(&mut self, when_full: &[WhenFull], dice: &mut Dice) {
        for child in self.steps.iter_mut().filter_map(|step| step.child.as_mut()) {
            let chosen = (dice.chance(0.5), dice.pick(&GROUPS).copied(), dice.pick(when_full).copied());
            if let (true, Some((name, limit)), Some(when_full)) = chosen {
                child.job.join(name, limit, when_full);
            }
            child.job.let_children_join(when_full, dice);
        }
    }

    /// For one that starts by itself.
    pub(super) fn roll_group_of_schedule(&mut self, dice: &mut Dice) {
        let chosen = (dice.chance(0.4), dice.pick(&GROUPS).copied(), dice.pick(&OTHERS).copied());
        if let (true, Some((name, limit)), Some(when_full)) = chosen {
            self.join(name, limit, when_full);
        }
    }

    /// Neither it nor what its steps begin.
    pub(crate) fn leave_groups(&mut self) {
        self.group = None;
        self.steps.iter_mut().filter_map(|step| step.child.as_mut()).for_each(|child| child.job.leave_groups());
    }

    /// Not where the job's own clock or the end of others decides more than its steps: what the model expects of those is
    /// about jobs that do not wait.
    pub(crate) fn join(&mut self, name: &str, limit: u32, when_full: WhenFull) {
        let plain = |condition: Condition| matches!(condition, Condition::Success | Condition::OutputAbove { .. });
        if self.timeout.is_none() && self.expires.is_none() && self.steps.iter().all(|step| plain(step.condition)) {
            self.group = Some(GroupPlan { name: name.to_owned(), limit, when_full });
        }
    }

    pub(super) fn write_group(&self, text: &mut String) {
        if let Some(GroupPlan { name, limit, when_full }) = &self.group {
            let when_full = when_full.word();
            // The same whatever is given: what is to be seen is that a template comes to it.
            let name = match self.templated {
                true => format!("\"{{{{ '{name}' if (input.n or 0) >= 0 else 'nobody' }}}}\""),
                false => name.clone(),
            };
            let _ = writeln!(text, "concurrency: {{ group: {name}, limit: {limit}, when_full: {when_full} }}");
        }
    }
}
