//! A step that is done once for each item of a list: the items become steps of their own, and it ends with the last.

use std::sync::Arc;

use planted::Bug;
use serde_json::Value;

use crate::definition::{CHILDREN_AT_ONCE, ITEMS_MAX, STEPS_MAX, Work};
use crate::event::Rejection;
use crate::failure::{Failure, FailureKind};
use crate::ids::StepIx;
use crate::job::{Fan, Item, Step, Unlisted};
use crate::state::{Delegate, Delegated, End, Queued, SkipCause, State, StopCause};
use crate::table::Verb;

use super::draft::Draft;

/// The outputs of all items together, as JSON text: they become the output of one step.
pub(super) const OUTPUTS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How the items of a fan-out ended.
#[derive(Default)]
struct Tally {
    failed: u32,
    first_failed: Option<StepIx>,
    first_cancelled: Option<StepIx>,
}

impl Draft<'_> {
    /// Whether the step becomes many, and is not one of those itself.
    pub(super) fn is_fan_out(&self, ix: StepIx) -> bool {
        self.def(ix).fan_out.is_some() && self.step(ix).item.is_none()
    }

    /// What it goes over. What its list is made of does not change any more, so it is the same whenever it is asked for.
    /// None where its items are there already, taken over from another job.
    pub(super) fn find_items(&self, ix: StepIx) -> Result<Option<Vec<Value>>, String> {
        let def = self.def(ix);
        let Some(fan_out) = def.fan_out.as_ref().filter(|_| self.step(ix).fan.is_none()) else { return Ok(None) };
        let needs = self.needs_outcome(ix);
        let items = self.with_scope(ix, &needs, |scope| self.ctx.evaluator.items(&fan_out.items, def, scope))?;
        if items.len() > ITEMS_MAX {
            return Err(format!("it has {} items, and a step has at most {ITEMS_MAX}", items.len()));
        }
        let all = self.count() + items.len();
        if all > STEPS_MAX {
            return Err(format!(
                "with its {} items the job would have {all} steps, more than {STEPS_MAX}",
                items.len()
            ));
        }
        Ok(Some(items))
    }

    /// Makes a step of each item, and lets as many begin as may.
    pub(super) fn fan_out(&mut self, ix: StepIx, verb: Verb, reason: &str) -> Result<(), Rejection> {
        let items = match self.find_items(ix) {
            Ok(items) => items,
            Err(problem) => return self.template_failed(ix, &problem),
        };
        if items.as_ref().is_some_and(Vec::is_empty) && verb == Verb::Enqueue {
            self.step_mut(ix).output = Value::Array(Vec::new());
            return self.end(ix, Verb::Complete, End::Success, None, "it has no items");
        }
        if verb != Verb::Enqueue {
            let queued = Queued { since: self.ctx.now, heard_since: self.ctx.heard, not_before: None, offer: None };
            self.shift(ix, verb, State::Queued(queued), reason)?;
        }
        self.step_mut(ix).delegated_at = Some(self.ctx.now);
        let delegated = Delegated { since: self.ctx.now, to: Delegate::Items, called_off: None, held: false };
        self.shift(ix, Verb::Start, State::Delegated(delegated), "its items are to run")?;
        if let Some(items) = items {
            self.add_items(ix, items.into_iter().map(Arc::new));
        }
        self.go_on(ix)
    }

    /// A worker has an attempt of an item that is not listed: it is to be that item's when it is. Of several attempts of one
    /// item the last stands for those before it.
    pub(super) fn unlisted(&mut self, ix: StepIx, unlisted: Unlisted) -> Result<(), Rejection> {
        self.known(ix)?;
        let step = self.step(ix);
        let comes_up = self.is_fan_out(ix) && step.fan.is_none() && !step.state.is_final();
        let newer = |known: &Unlisted| {
            known.number == unlisted.number && (known.fence, known.epoch) >= (unlisted.fence, unlisted.epoch)
        };
        if !comes_up || unlisted.number as usize >= ITEMS_MAX || step.unlisted.iter().any(newer) {
            return Err(Rejection::NotNow { state: step.state.name(), wanted: "wait for an item" });
        }
        let all = &mut self.step_mut(ix).unlisted;
        all.retain(|known| known.number != unlisted.number);
        all.push(unlisted);
        Ok(())
    }

    pub(super) fn add_items(&mut self, ix: StepIx, items: impl Iterator<Item = Arc<Value>>) {
        let first = StepIx::of(self.count());
        let mut count = 0;
        for value in items {
            // Each needs one thing: its turn.
            let mut step = Step::new(1, self.ctx.now);
            step.item = Some(Item { of: ix, number: count, value });
            self.add(step);
            count += 1;
        }
        self.step_mut(ix).fan = Some(Fan { first, count, begun: 0, under_way: 0, open: count, closed: false });
    }

    /// Gives turns as far as `max_parallel` allows; ends the step after its last item.
    fn go_on(&mut self, ix: StepIx) -> Result<(), Rejection> {
        let State::Delegated(_) = self.step(ix).state else { return Ok(()) };
        let Some(mut fan) = self.step(ix).fan else { return Ok(()) };
        let most = self.most_at_once(ix);
        let crowds = planted::is(Bug::TurnsNotCounted);
        while !fan.closed && fan.begun < fan.count && (fan.under_way < most || crowds) {
            let item = fan.item(fan.begun);
            fan.begun += 1;
            if self.step(item).state == State::Pending {
                fan.under_way += 1;
                self.step_mut(item).unmet = 0;
                self.ready.push_back(item);
            }
        }
        self.step_mut(ix).fan = Some(fan);
        if fan.open == 0 { self.gather(ix, fan) } else { Ok(()) }
    }

    fn most_at_once(&self, ix: StepIx) -> u32 {
        let def = self.def(ix);
        let most = def.fan_out.as_ref().and_then(|fan_out| fan_out.max_parallel).unwrap_or(u32::MAX);
        if matches!(def.work, Work::Child(_)) { most.min(CHILDREN_AT_ONCE) } else { most }
    }

    /// An item's turn. Its step's condition was true when it became an item, and rules had their say.
    pub(super) fn begin_item(&mut self, ix: StepIx) -> Result<(), Rejection> {
        let Some(of) = self.step(ix).item.as_ref().map(|item| item.of) else { return Ok(()) };
        let needs = self.needs_outcome(of);
        match self.fill_in(ix, &needs) {
            Ok(()) => self.hand_out(ix, Verb::Enqueue, "it is its turn"),
            Err(failure) => self.not_filled_in(ix, failure),
        }
    }

    /// An item is final: its step goes on with the next, or ends.
    pub(super) fn item_ended(&mut self, ix: StepIx) -> Result<(), Rejection> {
        let had_its_turn = self.step(ix).unmet == 0;
        let failed = self.step(ix).state == State::Final(End::Failed);
        let Some(of) = self.step(ix).item.as_ref().map(|item| item.of) else { return Ok(()) };
        let Some(fan) = &mut self.step_mut(of).fan else { return Ok(()) };
        fan.open -= 1;
        fan.under_way -= u32::from(had_its_turn && !(failed && planted::is(Bug::ItemKeepsTurn)));
        let fan = *fan;
        let fail_fast = self.def(of).fan_out.as_ref().is_some_and(|fan_out| fan_out.fail_fast);
        if fail_fast && !fan.closed && failed {
            self.close(of);
            let told = if planted::is(Bug::FailFastForgets) { fan.begun } else { fan.count };
            for other in (0..told).map(|number| fan.item(number)) {
                self.cancel_step(other, StopCause::Sibling, false)?;
            }
        }
        self.go_on(of)
    }

    /// A step that ends before it began takes with it the items that another job left to it.
    pub(super) fn end_with_items(&mut self, ix: StepIx) -> Result<(), Rejection> {
        let Some(fan) = self.step(ix).fan else { return Ok(()) };
        for item in fan.items() {
            if self.step(item).state == State::Pending {
                let end = End::Skipped(SkipCause::Condition);
                self.end(item, Verb::Skip, end, None, "the step that it belongs to did not begin")?;
            }
        }
        Ok(())
    }

    /// Nobody gets a turn any more. Those who have not had theirs are called off by whoever closes.
    pub(super) fn close(&mut self, ix: StepIx) {
        if let Some(fan) = &mut self.step_mut(ix).fan {
            fan.closed = true;
        }
    }

    /// Whether nothing may follow on what the step does now: the job was cancelled, or another item failed.
    pub(super) fn is_called_off(&self, ix: StepIx) -> bool {
        let fan = self.step(ix).item.as_ref().and_then(|item| self.step(item.of).fan);
        self.header.cancel.is_some() || fan.is_some_and(|fan| fan.closed)
    }

    /// The step is to end with those who do it, who are told one by one.
    pub(super) fn call_off(
        &mut self,
        ix: StepIx,
        delegated: Delegated,
        cause: StopCause,
        force: bool,
    ) -> Result<(), Rejection> {
        if delegated.called_off.is_none() || force {
            self.call_child_off(ix, force);
        }
        if delegated.called_off.is_some() {
            return Ok(());
        }
        self.close(ix);
        let (_, reason) = self.stop_failure(ix, cause);
        let state = State::Delegated(Delegated { called_off: Some(cause), ..delegated });
        let verb = if cause == StopCause::StepTimeout { Verb::Stop } else { Verb::CancelGraceful };
        self.shift(ix, verb, state, &reason)
    }

    /// The end of a step whose items are all final.
    fn gather(&mut self, ix: StepIx, fan: Fan) -> Result<(), Rejection> {
        let State::Delegated(delegated) = self.step(ix).state else { return Ok(()) };
        if let Some(cause) = delegated.called_off {
            return self.stop_confirmed(ix, cause, Verb::Complete);
        }
        let tally = self.tally(fan);
        if let Some(first) = tally.first_failed {
            let failure = self.failure_of_items(first, tally.failed, fan.count);
            let reason = failure.message.clone();
            return self.end(ix, Verb::Fail, End::Failed, Some(failure), &reason);
        }
        if let Some(first) = tally.first_cancelled {
            let error = self.step(first).error.clone();
            let reason = format!("`{}` was cancelled", self.name(first));
            return self.end(ix, Verb::Cancel, End::Cancelled, error, &reason);
        }
        match self.outputs(fan) {
            Some(outputs) => {
                self.step_mut(ix).output = Value::Array(outputs);
                let reason = format!("all of its {} items ended well", fan.count);
                self.end(ix, Verb::Succeed, End::Success, None, &reason)
            }
            None => {
                let message = format!(
                    "Step `{}` ended well, but the outputs of its items hold more than {OUTPUTS_BYTES_MAX} bytes together",
                    self.name(ix)
                );
                let failure = Failure::new(FailureKind::BadOutput, message.clone());
                self.end(ix, Verb::Fail, End::Failed, Some(failure), &message)
            }
        }
    }

    fn tally(&self, fan: Fan) -> Tally {
        let mut tally = Tally::default();
        for item in fan.items() {
            match self.step(item).state {
                State::Final(End::Failed) => {
                    tally.failed += 1;
                    tally.first_failed.get_or_insert(item);
                }
                State::Final(End::Cancelled) => {
                    tally.first_cancelled.get_or_insert(item);
                }
                _ => {}
            }
        }
        tally
    }

    /// The code of the first that failed, and how many did.
    fn failure_of_items(&self, first: StepIx, failed: u32, count: u32) -> Failure {
        let unnamed = || Failure::new(FailureKind::Internal, "an item ended without a reason");
        let failure = self.step(first).error.clone().unwrap_or_else(unnamed);
        let message = format!("{failed} of {count} items failed, first `{}`: {}", self.name(first), failure.message);
        Failure::new(failure.kind, message)
    }

    /// What the items wrote, in their order; none if that is too much.
    fn outputs(&self, fan: Fan) -> Option<Vec<Value>> {
        let mut bytes = 0;
        let mut outputs = Vec::with_capacity(fan.count as usize);
        for item in fan.items() {
            let output = &self.step(item).output;
            bytes += output.to_string().len();
            if bytes > OUTPUTS_BYTES_MAX {
                return None;
            }
            outputs.push(output.clone());
        }
        Some(outputs)
    }
}
