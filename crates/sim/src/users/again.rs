//! What people do to a step or a job once more: `resolve` and `retry`. Whoever says that an attempt is dead has looked.

use engine::{JobId, StepIx};
use serde_json::Value;
use server::ledger::{Again, Command, How, ResolveOrder, RetryOrder};
use tokio::sync::oneshot;

use super::{Reply, ann};
use crate::model::{End, SETTLED_OUTPUT};
use crate::workload::SUBMITTER;
use crate::world::World;

impl World {
    pub(super) fn retry(&mut self, server: usize, from_failed: bool) -> bool {
        let mut failed = self.checks.lock().expect("no checker panics").failed_jobs();
        if let Some(holder) = self.holder {
            failed.retain(|job| self.checks.lock().expect("no checker panics").shares_group(*job, holder));
        }
        let Some(job) = self.users.dice.pick(&failed).copied() else { return false };
        let looks = self.users.dice.chance(0.3) || self.holder.is_some();
        let confirm_dead = looks && self.checks.lock().expect("no checker panics").is_dead(job);
        let (from, sure) = (if from_failed { " from where it failed" } else { "" }, sure(confirm_dead));
        self.tell(|| format!("ann lets {job} go on{from}{sure}"));
        let input = if from_failed { None } else { self.other_input(job) };
        let order = RetryOrder { job, from_failed, confirm_dead, by: ann(), input };
        self.again(server, Again::Retry(order));
        true
    }

    /// Now and then she wants it with another input; by dice of its own.
    fn other_input(&mut self, job: JobId) -> Option<Value> {
        if !self.users.inputs.chance(0.3) {
            return None;
        }
        let input = serde_json::json!({ "n": self.users.inputs.below(100) });
        self.tell(|| format!("ann wants {job} with {input}"));
        self.check(|checks| checks.input_asked(job, input.to_string()));
        Some(input)
    }

    /// A step whose worker is cut off.
    pub(super) fn resolve_open(&mut self, server: usize) -> bool {
        let Some((job, step)) = self.a_step_in("recovering") else { return false };
        let how = self.some_way();
        let end = end_of(&how);
        self.check(|checks| checks.resolve_asked(job, step, end));
        self.resolve(server, job, step, how);
        true
    }

    /// A failed step of a job that is over.
    pub(super) fn resolve_over(&mut self, server: usize) -> bool {
        let mut failed = self.checks.lock().expect("no checker panics").failed_steps();
        self.keep_to_group(&mut failed);
        let Some((job, step)) = self.users.dice.pick(&failed).copied() else { return false };
        let late = self.late_end(job, step).is_some() && self.users.dice.chance(0.7);
        let how = if late { How::AcceptLate } else { self.some_way() };
        self.resolve(server, job, step, how);
        true
    }

    fn some_way(&mut self) -> How {
        match self.users.dice.below(3) {
            0 => succeeded(),
            1 => failed(),
            _ => How::Rerun,
        }
    }

    fn resolve(&mut self, server: usize, job: JobId, step: StepIx, how: How) {
        let is_dead = self.checks.lock().expect("no checker panics").is_dead(job);
        let confirm_dead = is_dead && (self.holder.is_some() || self.users.dice.chance(0.3));
        self.resolve_as(server, (job, step), how, (confirm_dead, SUBMITTER));
    }

    /// By what is on record now. `confirm_dead`: whoever does says that nothing of it runs.
    pub(super) fn resolve_as(
        &mut self,
        server: usize,
        (job, step): (JobId, StepIx),
        how: How,
        (confirm_dead, by): (bool, &str),
    ) {
        let attempts = self.database.reader().attempts(job).unwrap_or_default();
        let mut tried = attempts.iter().rev().filter(|attempt| attempt.ix == step);
        let seen = match how {
            How::AcceptLate => tried.find(|attempt| attempt.late_outcome.is_some()),
            How::Succeeded { .. } | How::Failed { .. } | How::Rerun => tried.next(),
        };
        let attempt = seen.map(|attempt| attempt.id);
        let late_outcome = seen.and_then(|attempt| serde_json::from_str(attempt.late_outcome.as_deref()?).ok());
        let sure = sure(confirm_dead);
        self.tell(|| format!("{by} resolves {job}/#{} as {how:?}{sure}", step.0));
        let order = ResolveOrder { job, step, how, attempt, late_outcome, confirm_dead, by: by.to_owned() };
        self.again(server, Again::Resolve(order));
    }

    fn late_end(&self, job: JobId, step: StepIx) -> Option<Value> {
        let attempts = self.database.reader().attempts(job).unwrap_or_default();
        let late =
            attempts.iter().filter(|attempt| attempt.ix == step).find_map(|attempt| attempt.late_outcome.clone());
        late.and_then(|text| serde_json::from_str(&text).ok())
    }

    fn again(&mut self, server: usize, order: Again) {
        let (reply, answer) = oneshot::channel();
        self.ask(server, Command::Again(Box::new(order), reply), Reply::Again(answer));
    }
}

pub(super) fn succeeded() -> How {
    How::Succeeded { output: serde_json::json!({ "n": SETTLED_OUTPUT }) }
}

pub(super) fn failed() -> How {
    How::Failed { reason: "it is enough".to_owned() }
}

/// What a step is settled as.
pub(super) fn end_of(how: &How) -> Option<End> {
    match how {
        How::Succeeded { .. } => Some(End::Success),
        How::Failed { .. } => Some(End::Failed),
        How::Rerun | How::AcceptLate => None,
    }
}

fn sure(confirm_dead: bool) -> &'static str {
    if confirm_dead { ", and is sure that nothing of it runs" } else { "" }
}
