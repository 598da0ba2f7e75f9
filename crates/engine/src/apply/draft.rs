//! The working copy of one `apply`: the touched steps, the header, and what is to be told.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use planted::Bug;

use crate::attempt::Attempt;
use crate::deadline;
use crate::definition::StepDef;
use crate::event::{About, Changes, ChildOrder, Effect, HookOrder, Note, OfferNews, Rejection};
use crate::failure::{Failure, FailureKind};
use crate::ids::{StepIx, WorkerId};
use crate::job::{CancelCause, Header, Job, JobError, JobState, Step};
use crate::notice::Notice;
use crate::state::{End, State, StateName};
use crate::table::{self, Verb};

use super::Ctx;

/// By how much a job's version may grow at once, by chance. A write is taken if the version is the one that it was decided on. After a
/// database lost its last commits a job may go another way, and come to the same number of changes: whoever still remembers the first way
/// must not take the second for it, and write half of each.
const VERSION_CHANCE: u64 = (1 << 20) - 1;

pub(super) struct Draft<'a> {
    pub(super) job: &'a Job,
    pub(super) ctx: Ctx<'a>,
    pub(super) header: Header,
    steps: BTreeMap<StepIx, Step>,
    attempts: Vec<Attempt>,
    notes: Vec<Note>,
    pub(super) children: Vec<ChildOrder>,
    pub(super) hooks: Vec<HookOrder>,
    pub(super) notices: Vec<Notice>,
    effects: Vec<Effect>,
    /// Steps whose last need has just become final.
    pub(super) ready: VecDeque<StepIx>,
    /// Items of fan-outs that have just become final.
    pub(super) ended_items: VecDeque<StepIx>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(job: &'a Job, ctx: Ctx<'a>) -> Draft<'a> {
        Draft {
            job,
            ctx,
            header: job.header.clone(),
            steps: BTreeMap::new(),
            attempts: Vec::new(),
            notes: Vec::new(),
            children: Vec::new(),
            hooks: Vec::new(),
            notices: Vec::new(),
            effects: Vec::new(),
            ready: VecDeque::new(),
            ended_items: VecDeque::new(),
        }
    }

    pub(super) fn def(&self, ix: StepIx) -> &'a StepDef {
        let of = self.step(ix).item.as_ref().map_or(ix, |item| item.of);
        self.job.definition.step(of)
    }

    /// `build`, or `each[3]`.
    pub(super) fn name(&self, ix: StepIx) -> Cow<'a, str> {
        match &self.step(ix).item {
            Some(item) => Cow::Owned(item.name(&self.job.definition)),
            None => Cow::Borrowed(&self.job.definition.step(ix).name),
        }
    }

    /// How many steps the job has by now.
    pub(super) fn count(&self) -> usize {
        let last = self.steps.keys().next_back().map_or(0, |ix| ix.get() + 1);
        last.max(self.job.steps.len())
    }

    /// Adds a step that is not in the definition; it comes after all that there are.
    pub(super) fn add(&mut self, step: Step) {
        self.header.counts.entered(&step.state);
        self.steps.insert(StepIx::of(self.count()), step);
    }

    pub(super) fn step(&self, ix: StepIx) -> &Step {
        self.steps.get(&ix).unwrap_or_else(|| self.job.step(ix))
    }

    pub(super) fn step_mut(&mut self, ix: StepIx) -> &mut Step {
        self.steps.entry(ix).or_insert_with(|| self.job.step(ix).clone())
    }

    /// For a new job: every row is written, and what needs nothing is ready.
    pub(super) fn touch_all(&mut self) {
        for index in 0..self.job.steps.len() {
            let ix = StepIx::of(index);
            if self.step_mut(ix).unmet == 0 {
                self.ready.push_back(ix);
            }
        }
    }

    /// The one place where a step's state changes: checked against the table, counted, noted, passed on.
    pub(super) fn shift(&mut self, ix: StepIx, verb: Verb, to: State, reason: &str) -> Result<(), Rejection> {
        let from = self.step(ix).state.name();
        let target = to.name();
        table::check(from, verb, target)?;
        if target == StateName::Running && !to.is_fanned_out() && self.header.started_at.is_none() {
            self.header.started_at = Some(self.ctx.now);
        }
        self.header.recovered |= target == StateName::Recovering;
        self.put(ix, to).for_operator = false;
        self.note(About::Step { step: ix, verb, from, to: target }, reason);
        if target.is_final() {
            self.tell_dependents(ix);
            return self.end_with_items(ix);
        }
        Ok(())
    }

    /// Also for what changes within one state, of which the table knows nothing.
    pub(super) fn put(&mut self, ix: StepIx, to: State) -> &mut Step {
        let step = self.steps.entry(ix).or_insert_with(|| self.job.step(ix).clone());
        self.header.counts.moved(&step.state, &to);
        step.state = to;
        step
    }

    /// How many steps come to their end.
    pub(super) fn ends_now(&self) -> usize {
        let was_open = |ix: StepIx| self.job.steps.get(ix.get()).is_none_or(|step| !step.state.is_final());
        self.steps.iter().filter(|(ix, step)| step.state.is_final() && was_open(**ix)).count()
    }

    fn tell_dependents(&mut self, ix: StepIx) {
        if self.step(ix).item.is_some() {
            return self.ended_items.push_back(ix);
        }
        for &dependent in self.job.definition.dependents(ix) {
            // One that was called off before its needs ended is final, and its row stays as it is.
            if self.step(dependent).state != State::Pending {
                continue;
            }
            let step = self.step_mut(dependent);
            step.unmet -= 1;
            if step.unmet == 0 {
                self.ready.push_back(dependent);
            }
        }
    }

    pub(super) fn note(&mut self, about: About, reason: &str) {
        self.notes.push(Note { at: self.ctx.now, about, reason: reason.to_owned() });
    }

    pub(super) fn note_offer(&mut self, step: StepIx, worker: WorkerId, what: OfferNews, reason: &str) {
        self.note(About::Offer { step, worker, what }, reason);
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Saves the attempt's row as it is now.
    pub(super) fn record(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
    }

    /// Works out what follows for the job and seals the changes.
    pub(super) fn finish(mut self) -> Changes {
        let from = self.job.header.state;
        self.header.state = self.job_state();
        self.account_hold();
        let to = self.header.state;
        if from != to {
            let reason = self.header.error.as_ref().map(|e| e.failure.to_string()).unwrap_or_default();
            self.note(About::Job { from, to }, &reason);
            if planted::is(Bug::EndedByEach) && to.is_final() && self.steps.len() > 1 {
                self.note(About::Job { from, to }, &reason);
            }
        }
        let (now, clocks, rules) = (self.ctx.now, self.ctx.clocks(), self.ctx.rules);
        let in_line = self.awaits_slot() && !to.is_final();
        for (ix, step) in &mut self.steps {
            let of = step.item.as_ref().map_or(*ix, |item| item.of);
            step.check = deadline::of_step(step, self.job.definition.step(of), rules, &clocks);
            if let Some(check) = step.check.as_mut().filter(|_| in_line && step.unmet == 0) {
                check.owner = deadline::Owner::Group;
            }
            if let Some(check) = step.check.as_mut().filter(|_| step.for_operator) {
                check.owner = deadline::Owner::Operator;
            }
            step.updated_at = now;
        }
        if to.is_final() {
            self.header.ended_at = Some(now);
            self.header.check = None;
            self.fire_hooks();
        } else {
            let expires = self.job.definition.expires;
            let mut check = deadline::of_job(&self.header, self.job.created_at, expires, now);
            if in_line {
                check.owner = deadline::Owner::Group;
            }
            self.header.check = Some(check);
        }
        self.header.version += 1 + (self.ctx.random & VERSION_CHANCE);
        Changes {
            header: self.header,
            steps: self.steps.into_iter().collect(),
            attempts: self.attempts,
            notes: self.notes,
            children: self.children,
            hooks: self.hooks,
            notices: self.notices,
            effects: self.effects,
        }
    }

    fn job_state(&mut self) -> JobState {
        let counts = self.header.counts;
        if counts.open() > 0 {
            if self.awaits_slot() && self.header.cancel.is_none() {
                return JobState::Pending;
            }
            return counts.open_state(self.header.cancel.is_some(), self.header.started_at.is_some());
        }
        self.find_error();
        match (&self.header.error, &self.header.cancel) {
            (_, Some(_)) if counts.get(StateName::Cancelled) > 0 => JobState::Cancelled,
            (Some(error), _) if self.ended_by_cancel(error) => JobState::Cancelled,
            (Some(_), _) => JobState::Failed,
            (None, _) => JobState::Success,
        }
    }

    /// A reject or an expired hold cancels its step; without a failure elsewhere it cancels the job too. A step that
    /// was called off because the job expired, or because of a fault of ours, was nobody's wish.
    fn ended_by_cancel(&self, error: &JobError) -> bool {
        let wished = !matches!(error.failure.kind, FailureKind::Expired | FailureKind::Internal);
        wished && error.step.is_some_and(|ix| self.step(ix).state.name() == StateName::Cancelled)
    }

    /// The job's error: the order that cancelled it, else its first step that failed, else was cancelled. The first is the one
    /// that ended first, and of those that ended together the one that stands first; an item comes after all that are none.
    fn find_error(&mut self) {
        if self.header.error.is_some() {
            return;
        }
        if let Some(order) = &self.header.cancel
            && self.header.counts.get(StateName::Cancelled) > 0
        {
            let failure = match order.cause {
                CancelCause::Asked => Failure::new(FailureKind::Cancelled, format!("Cancelled by {}", order.by)),
                CancelCause::JobTimeout => Failure::new(FailureKind::JobTimeout, "Job cancelled: its timeout is over"),
            };
            self.header.error = Some(JobError { failure, step: None });
            return;
        }
        if self.header.counts.get(StateName::Failed) + self.header.counts.get(StateName::Cancelled) == 0 {
            return;
        }
        // What changes now has its time when all is sealed.
        let ended = |ix: StepIx| if self.steps.contains_key(&ix) { self.ctx.now } else { self.step(ix).updated_at };
        let first = |end: End| {
            (0..self.count())
                .map(StepIx::of)
                .filter(|&ix| self.step(ix).state == State::Final(end) && !self.def(ix).allow_failure)
                .min_by_key(|&ix| (self.step(ix).item.is_some(), ended(ix), ix))
        };
        if let Some(ix) = first(End::Failed).or_else(|| first(End::Cancelled)) {
            let unnamed = || Failure::new(FailureKind::Internal, "a step ended without a reason");
            let failure = self.step(ix).error.clone().unwrap_or_else(unnamed);
            self.header.error = Some(JobError { failure, step: Some(ix) });
        }
    }

    /// The job's clock stands still while only a person can move it on.
    fn account_hold(&mut self) {
        let held = self.header.state == JobState::Held;
        match (held, self.header.held_since) {
            (true, None) => self.header.held_since = Some(self.ctx.now),
            (false, Some(since)) => {
                let pause = self.ctx.now.since(since);
                self.header.timeout_at = self.header.timeout_at.map(|at| at + pause);
                self.header.expect_at = self.header.expect_at.map(|at| at + pause);
                self.header.held_since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
}
