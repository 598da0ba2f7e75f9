//! A final job never changes. What is to be done differently is done by a new job that takes over what stands.

use std::fmt;
use std::sync::Arc;

use crate::deadline::Rules;
use crate::definition::{OnDisconnect, StepDef};
use crate::event::{Changes, Rejection};
use crate::failure::FailureKind;
use crate::ids::{JobId, StepIx};
use crate::job::{Fan, Item, Job, Step};
use crate::state::{End, Ground, SkipCause, State};
use crate::table::Verb;
use crate::time::Time;

use super::draft::Draft;
use super::resolve::Resolve;
use super::{Ctx, blank};

/// How a job goes on that had already ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Continuation {
    /// All of it once more.
    Anew,
    /// What did not end well, and all that follows from it.
    FromFailed,
    /// One step as a person says, and all that follows from it.
    Resolved(Box<Resolve>),
}

/// Why a step that never ran in its job stands there as it does. The note of its end has this for its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// As it ended in the job before.
    TakenOver(JobId),
    /// As a person said.
    Settled { how: String, by: String },
}

const TAKEN_OVER: &str = "taken over from job ";
const SETTLED: &str = "resolved as ";

impl Origin {
    /// None where a reason is another one.
    pub fn of_reason(reason: &str) -> Option<Origin> {
        if let Some(job) = reason.strip_prefix(TAKEN_OVER) {
            return job.parse().ok().map(|id| Origin::TakenOver(JobId(id)));
        }
        let (how, by) = reason.strip_prefix(SETTLED)?.split_once(" by ")?;
        Some(Origin::Settled { how: how.to_owned(), by: by.to_owned() })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::TakenOver(job) => write!(f, "{TAKEN_OVER}{job}"),
            Origin::Settled { how, by } => write!(f, "{SETTLED}{how} by {by}"),
        }
    }
}

/// A step's last attempt in the job that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastAttempt {
    /// Known to be over with all its processes.
    pub confirmed: bool,
    pub ended_at: Option<Time>,
}

impl LastAttempt {
    /// Whether the successor rule allows another attempt after this one.
    pub fn may_be_followed(self, def: &StepDef, rules: &Rules, now: Time) -> bool {
        let silent_for_long = self.ended_at.is_some_and(|at| at + rules.recovery_window <= now);
        let ground = Ground::of_silence(def.effects, def.on_disconnect == OnDisconnect::Stop);
        self.confirmed || (silent_for_long && ground.is_some())
    }
}

/// Makes the job that goes on after `old`. `last` tells of each step's last attempt there; `confirm_dead` is a person's
/// word that nothing of `old` runs any more; `by` wants it.
pub fn carry_on(
    id: JobId,
    old: &Job,
    how: &Continuation,
    confirm_dead: bool,
    last: &dyn Fn(StepIx) -> Option<LastAttempt>,
    by: Arc<str>,
    ctx: &Ctx<'_>,
) -> Result<(Job, Changes), Rejection> {
    if !old.is_final() {
        return Err(Rejection::JobOpen(old.header.state));
    }
    let kept = kept(old, how);
    let may_run = |ix: StepIx| {
        let of_settled = |order: &Resolve| order.settles() && (order.step == ix || order.step == of(old, ix));
        let settled = matches!(how, Continuation::Resolved(order) if of_settled(order));
        let follows = last(ix).is_none_or(|l| l.may_be_followed(old.def(ix), ctx.rules, ctx.now));
        !kept[ix.get()] && !settled && !follows
    };
    let in_doubt: Vec<StepIx> = (0..old.steps.len()).map(StepIx::of).filter(|ix| may_run(*ix)).collect();
    if !in_doubt.is_empty() && !confirm_dead {
        return Err(Rejection::MayStillRun { steps: in_doubt });
    }
    let mut job = blank(id, old.definition.clone(), old.input.clone(), old.group.clone(), by, ctx);
    job.hook_of = old.hook_of;
    let mut draft = Draft::new(&job, *ctx);
    draft.touch_all();
    draft.line_up();
    let origin = Origin::TakenOver(old.id).to_string();
    for index in (0..old.definition.steps().len()).filter(|&index| kept[index]) {
        let ix = StepIx::of(index);
        draft.take_over(ix, old.step(ix), &origin)?;
    }
    // A step that is settled by hand is done with its items.
    let settled = |ix: StepIx| matches!(how, Continuation::Resolved(order) if order.step == ix && order.settles());
    // Where all is new the list is, too: it may be one of other inputs.
    let goes_on = |ix: StepIx| *how != Continuation::Anew && keeps_items(old, ix, &kept) && !settled(ix);
    // Of a step that stands they stand too: a job further on asks which of them ended well, and what they left is theirs.
    let mut lists: Vec<(StepIx, Fan)> = fans(old).filter(|(ix, _)| kept[ix.get()] || goes_on(*ix)).collect();
    // In the order in which they came up, so that each item has the place that it had as far as that can be.
    lists.sort_by_key(|(_, fan)| fan.first);
    for (ix, fan) in lists {
        draft.take_over_items(ix, fan, old, &kept, &origin)?;
        if kept[ix.get()] {
            draft.close(ix);
        }
    }
    if let Continuation::Resolved(order) = how {
        let reason = Origin::Settled { how: order.how.word().to_owned(), by: order.by.clone() }.to_string();
        let ix = draft.successor_of(order.step, old);
        draft.settle_as(ix, &order.how, &order.by, (Verb::Complete, Verb::Fail), &reason)?;
    }
    draft.release_ready();
    let changes = draft.finish();
    job.absorb(&changes);
    Ok((job, changes))
}

/// Which steps stand as they are. A step stands only on needs that do: what follows from something new is new.
fn kept(old: &Job, how: &Continuation) -> Vec<bool> {
    let mut kept: Vec<bool> = match how {
        Continuation::Anew => return vec![false; old.steps.len()],
        Continuation::FromFailed => all(old).map(|ix| ended_well(old, ix)).collect(),
        Continuation::Resolved(order) => {
            let resolved = of(old, order.step);
            // With an ancestor all that it needs stands, so that nothing below takes it back.
            let fixed = ancestors(old, resolved);
            let stands = |ix: StepIx| {
                // Where all of a fan-out is to be done again, its failures are what is wrong with it.
                let of_it = ix != order.step && of(old, ix) == order.step;
                let ended = if of_it { ended_well(old, ix) } else { ended_by_itself(old, ix) };
                ix != order.step && ix != resolved && (fixed[ix.get()] || ended)
            };
            all(old).map(stands).collect()
        }
    };
    let of_file = old.definition.steps().len();
    let mut fallen: Vec<StepIx> = (0..of_file).filter(|&index| !kept[index]).map(StepIx::of).collect();
    while let Some(ix) = fallen.pop() {
        for &dependent in old.definition.dependents(ix) {
            if std::mem::replace(&mut kept[dependent.get()], false) {
                fallen.push(dependent);
            }
        }
    }
    for (ix, fan) in fans(old) {
        // Items stand with their step; else those that ended do, as long as they are items of the same list.
        let (whole, same) = (kept[ix.get()], keeps_items(old, ix, &kept));
        fan.items().for_each(|item| kept[item.get()] = whole || (same && kept[item.get()]));
    }
    kept
}

/// The steps of a job that became many.
fn fans(old: &Job) -> impl Iterator<Item = (StepIx, Fan)> {
    let fan = |ix: StepIx| Some((ix, old.step(ix).fan?));
    (0..old.definition.steps().len()).map(StepIx::of).filter_map(fan)
}

/// Whether a fan-out that is done again goes over the same list: what it needs stands as it was.
fn keeps_items(old: &Job, ix: StepIx, kept: &[bool]) -> bool {
    !kept[ix.get()] && old.def(ix).needs.iter().all(|need| kept[need.step.get()])
}

/// The step of the definition that this one is, or is an item of.
fn of(old: &Job, ix: StepIx) -> StepIx {
    old.step(ix).item.as_ref().map_or(ix, |item| item.of)
}

fn all(old: &Job) -> impl Iterator<Item = StepIx> {
    (0..old.steps.len()).map(StepIx::of)
}

/// All that `ix` needs, near and far: it is settled as it is, so what led to it stays as it was.
fn ancestors(old: &Job, ix: StepIx) -> Vec<bool> {
    let mut found = vec![false; old.steps.len()];
    let mut open = vec![ix];
    while let Some(ix) = open.pop() {
        for need in &old.def(ix).needs {
            if !std::mem::replace(&mut found[need.step.get()], true) {
                open.push(need.step);
            }
        }
    }
    found
}

fn ended_well(old: &Job, ix: StepIx) -> bool {
    let forgiven = old.step(ix).state != State::Final(End::Failed) || old.def(ix).allow_failure;
    ended_by_itself(old, ix) && forgiven
}

/// Not called off, nor skipped for what another did.
fn ended_by_itself(old: &Job, ix: StepIx) -> bool {
    let step = old.step(ix);
    match step.state {
        State::Final(End::Success) => true,
        State::Final(End::Failed) => !failed_with_its_job(old, step),
        // An item has no condition of its own: it was skipped because its step did not begin.
        State::Final(End::Skipped(SkipCause::Condition)) => step.item.is_none(),
        _ => false,
    }
}

/// The job failed before anything of it began, and this step with it. That is no failure that a step may be allowed: nobody
/// knows what it would have come to.
fn failed_with_its_job(old: &Job, step: &Step) -> bool {
    let of_job = old.header.error.as_ref().map(|error| error.failure.kind);
    let before_all = matches!(of_job, Some(FailureKind::Expired | FailureKind::GroupFull | FailureKind::GroupDeadlock));
    before_all && old.header.started_at.is_none() && step.error.as_ref().map(|error| error.kind) == of_job
}

impl Resolve {
    /// Whether the step ends by this, and does not run again.
    fn settles(&self) -> bool {
        self.how != super::resolve::Resolution::Rerun
    }
}

impl Draft<'_> {
    /// A fan-out that stands, or is done again over the same list: what stands of its items stands here too.
    fn take_over_items(
        &mut self,
        ix: StepIx,
        fan: Fan,
        old: &Job,
        kept: &[bool],
        origin: &str,
    ) -> Result<(), Rejection> {
        let value = |item: StepIx| old.step(item).item.as_ref().map(|item: &Item| item.value.clone());
        self.add_items(ix, fan.items().filter_map(value));
        for item in fan.items().filter(|item| kept[item.get()]) {
            self.take_over(self.successor_of(item, old), old.step(item), origin)?;
        }
        Ok(())
    }

    /// The step that stands here for one of the job before.
    fn successor_of(&self, ix: StepIx, old: &Job) -> StepIx {
        let place = old.step(ix).item.as_ref().and_then(|item| Some((self.step(item.of).fan?, item.number)));
        place.map_or(ix, |(fan, number)| fan.item(number))
    }

    /// A step that ended in the job before, as it ended there.
    fn take_over(&mut self, ix: StepIx, old: &Step, origin: &str) -> Result<(), Rejection> {
        let State::Final(end) = old.state else {
            return Err(Rejection::NotNow { state: old.state.name(), wanted: "take over" });
        };
        let verb = match end {
            End::Success => Verb::Complete,
            End::Failed => Verb::Fail,
            End::Cancelled => Verb::Cancel,
            End::Skipped(_) => Verb::Skip,
        };
        let step = self.step_mut(ix);
        step.output = old.output.clone();
        step.artifacts = old.artifacts;
        self.end(ix, verb, end, old.error.clone(), origin)
    }
}
