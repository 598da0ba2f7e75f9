//! What becomes of a step once its needs are final: condition, protection, templates, queue; or a skip that cascades.

use std::sync::Arc;

use planted::Bug;

use crate::definition::{Condition, FETCHED_MAX, StepDef, Work};
use crate::eval::{Scope, StepView};
use crate::event::Rejection;
use crate::failure::{Failure, FailureKind};
use crate::ids::StepIx;
use crate::state::{End, Held, Queued, SkipCause, State, WaitReason, Waiting};
use crate::table::Verb;

use super::draft::Draft;

/// What the needs of a step amount to.
pub(super) struct NeedsOutcome {
    satisfied: bool,
    failed: bool,
}

impl Draft<'_> {
    /// Settles every step whose last need became final, and those that follow from that.
    pub(super) fn release_ready(&mut self) {
        if self.awaits_slot() {
            // They are found again when the job is admitted.
            self.ready.clear();
        }
        loop {
            let outcome = if let Some(ix) = self.ready.pop_front() {
                if self.step(ix).state == State::Pending { self.settle(ix) } else { Ok(()) }
            } else if let Some(ix) = self.ended_items.pop_front() {
                self.item_ended(ix)
            } else {
                return;
            };
            outcome.expect("the table lets a pending step be queued, waiting, held, skipped or failed, and others end");
        }
    }

    fn settle(&mut self, ix: StepIx) -> Result<(), Rejection> {
        if self.step(ix).item.is_some() {
            return self.begin_item(ix);
        }
        let needs = self.needs_outcome(ix);
        let holds = match &self.def(ix).condition {
            Condition::Success => Ok(needs.satisfied && self.header.cancel.is_none()),
            Condition::Expression(text) => self.evaluate(ix, text, &needs),
        };
        match holds {
            Ok(true) => self.admit(ix, &needs),
            Ok(false) if self.header.cancel.is_some() => {
                let failure = Failure::new(FailureKind::Cancelled, "The job was cancelled before this step");
                self.end(ix, Verb::Cancel, End::Cancelled, Some(failure), "the job was cancelled")
            }
            Ok(false) => {
                let cause = if needs.failed { SkipCause::Failure } else { SkipCause::Condition };
                let reason =
                    if needs.satisfied { "its condition is false" } else { "what it needs did not end as it asks" };
                self.end(ix, Verb::Skip, End::Skipped(cause), None, reason)
            }
            Err(problem) => self.template_failed(ix, &problem),
        }
    }

    pub(super) fn needs_outcome(&self, ix: StepIx) -> NeedsOutcome {
        let mut outcome = NeedsOutcome { satisfied: true, failed: false };
        for need in &self.def(ix).needs {
            let State::Final(end) = self.step(need.step).state else {
                outcome.satisfied = false;
                continue;
            };
            let forgiven = self.def(need.step).allow_failure;
            outcome.satisfied &= need.on.meet(end, forgiven || planted::is(Bug::FailureReleases));
            outcome.failed |= match end {
                End::Failed => !forgiven,
                End::Skipped(SkipCause::Failure) => true,
                End::Success | End::Cancelled | End::Skipped(SkipCause::Condition) => false,
            };
        }
        outcome
    }

    fn evaluate(&self, ix: StepIx, text: &str, needs: &NeedsOutcome) -> Result<bool, String> {
        self.with_scope(ix, needs, |scope| self.ctx.evaluator.holds(text, self.def(ix), scope))
    }

    pub(super) fn with_scope<T>(&self, ix: StepIx, needs: &NeedsOutcome, f: impl FnOnce(&Scope<'_>) -> T) -> T {
        let view = |other: StepIx| self.view(other);
        f(&Scope {
            job: self.job.id,
            task: &self.job.definition.name,
            input: &self.job.input,
            success: needs.satisfied && self.header.cancel.is_none(),
            failure: needs.failed,
            cancelled: self.header.cancel.is_some(),
            steps: &view,
            item: self.step(ix).item.as_ref().map(|item| &*item.value),
            outcome: None,
            notice: None,
        })
    }

    pub(super) fn view(&self, ix: StepIx) -> StepView<'_> {
        let step = self.step(ix);
        StepView {
            name: &self.def(ix).name,
            state: step.state.name(),
            output: &step.output,
            error_code: step.error.as_ref().map(|e| e.kind.code()),
        }
    }

    /// The step is to run: fill in its templates, then let protection rules have their say.
    fn admit(&mut self, ix: StepIx, needs: &NeedsOutcome) -> Result<(), Rejection> {
        let def = self.def(ix);
        let filled = if self.is_fan_out(ix) {
            self.find_items(ix).map(drop).map_err(|problem| of_template(&problem))
        } else {
            self.fill_in(ix, needs)
        };
        if let Err(failure) = filled {
            return self.not_filled_in(ix, failure);
        }
        if let Some(wait) = def.protection.wait {
            let wait = if planted::is(Bug::WaitCutShort) { wait / 2 } else { wait };
            let waiting = Waiting { until: self.ctx.now + wait, reason: WaitReason::Protection };
            return self.shift(ix, Verb::Wait, State::Waiting(waiting), "its environment asks for a wait");
        }
        match def.work {
            Work::Approve => self.hold(ix, Verb::Hold, "it waits for approval"),
            Work::Run(_) | Work::Child(_) if def.protection.reviewers > 0 => {
                self.hold(ix, Verb::Hold, "its environment asks for approval")
            }
            Work::Run(_) | Work::Child(_) => self.begin(ix, Verb::Enqueue, "its needs are met"),
        }
    }

    /// The step's program with its templates filled in; for a child job, whether they can be.
    pub(super) fn fill_in(&mut self, ix: StepIx, needs: &NeedsOutcome) -> Result<(), Failure> {
        let def = self.def(ix);
        self.check_fetched(def)?;
        match &def.work {
            Work::Run(body) if body.templated => {
                let rendered = self.with_scope(ix, needs, |scope| self.ctx.evaluator.render(body, def, scope));
                self.step_mut(ix).rendered = Some(Arc::new(rendered.map_err(|problem| of_template(&problem))?));
                Ok(())
            }
            Work::Child(body) => self.conceive(ix, body).map(drop),
            Work::Run(_) | Work::Approve => Ok(()),
        }
    }

    /// How much it fetches is known only when the lists before it are.
    fn check_fetched(&self, def: &StepDef) -> Result<(), Failure> {
        let sets = |step: StepIx| self.step(step).fan.map_or(1, |fan| fan.count as usize);
        let wanted: usize = def.fetch.iter().map(|fetch| sets(fetch.step)).sum();
        if wanted <= FETCHED_MAX {
            return Ok(());
        }
        let message = format!("{STEP_FAILED}it fetches the artifacts of {wanted} steps, and the most is {FETCHED_MAX}");
        Err(Failure::new(FailureKind::Artifacts, message))
    }

    /// Nothing holds it back any more.
    pub(super) fn begin(&mut self, ix: StepIx, verb: Verb, reason: &str) -> Result<(), Rejection> {
        if self.is_in_doubt(ix) && !planted::is(Bug::DoubtForgotten) {
            return self.hold_in_doubt(ix, reason);
        }
        if self.is_fan_out(ix) { self.fan_out(ix, verb, reason) } else { self.hand_out(ix, verb, reason) }
    }

    /// Leaves it to whoever does such steps: a worker, or a job of its own.
    pub(super) fn hand_out(&mut self, ix: StepIx, verb: Verb, reason: &str) -> Result<(), Rejection> {
        if self.is_in_doubt(ix) && !planted::is(Bug::DoubtForgotten) {
            return self.hold_in_doubt(ix, reason);
        }
        match &self.def(ix).work {
            Work::Child(body) => self.begin_child(ix, verb, body),
            Work::Run(_) | Work::Approve => self.enqueue(ix, verb, reason),
        }
    }

    pub(super) fn enqueue(&mut self, ix: StepIx, verb: Verb, reason: &str) -> Result<(), Rejection> {
        let queued = Queued { since: self.ctx.now, heard_since: self.ctx.heard, not_before: None, offer: None };
        self.shift(ix, verb, State::Queued(queued), reason)
    }

    pub(super) fn hold(&mut self, ix: StepIx, verb: Verb, reason: &str) -> Result<(), Rejection> {
        let held = self.new_hold(ix);
        self.shift(ix, verb, State::Held(held), reason)
    }

    /// As its rules want it; without any, one person will do, who may take as long as they like.
    pub(super) fn new_hold(&self, ix: StepIx) -> Held {
        let protection = &self.def(ix).protection;
        Held {
            since: self.ctx.now,
            expires_at: protection.hold_expires.map(|d| self.ctx.now + d),
            wanted: protection.reviewers.max(1),
            approvals: Vec::new(),
            live: None,
        }
    }

    pub(super) fn template_failed(&mut self, ix: StepIx, problem: &str) -> Result<(), Rejection> {
        self.end(ix, Verb::Fail, End::Failed, Some(of_template(problem)), problem)
    }

    /// It cannot begin, since its texts cannot be filled in.
    pub(super) fn not_filled_in(&mut self, ix: StepIx, failure: Failure) -> Result<(), Rejection> {
        let reason = failure.message.strip_prefix(STEP_FAILED).unwrap_or(&failure.message).to_owned();
        self.end(ix, Verb::Fail, End::Failed, Some(failure), &reason)
    }
}

/// How the message of a step begins that could not even begin.
const STEP_FAILED: &str = "Step failed: ";

fn of_template(problem: &str) -> Failure {
    Failure::new(FailureKind::Template, format!("{STEP_FAILED}{problem}"))
}
