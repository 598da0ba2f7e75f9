//! A second opinion on how a step may go on and how it must end, from nothing but the plan and what really happened. It
//! shares no code with the engine: where the two differ, one of them is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::secrets::RARE;
use crate::workload::{Condition, JobPlan, Kind, RetryPlan, StepPlan};

/// Why an attempt came to nothing, as far as a repeat depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The program's own end: this code, or this signal below zero.
    Exit(Option<i32>),
    Timeout,
    /// Its worker, machine or runner is gone, or it was cut off for longer than its lease.
    Lost,
    /// It was granted, and provably never ran.
    NeverStarted,
    /// A person settled it.
    Person,
    /// Nothing that anybody may repeat.
    Final,
}

/// How an attempt that never started is told from one whose runner died.
const NEVER_STARTED: &str = "The attempt never started";

impl Reason {
    pub(crate) fn of(code: Option<&str>, message: Option<&str>, exit_code: Option<i32>) -> Reason {
        match code {
            Some("exit_code" | "signal" | "oom_killed" | "spawn_failed" | "bad_output" | "artifacts") => {
                Reason::Exit(exit_code)
            }
            // Of a job that a step began: there may be room for another one later.
            Some("group_full" | "group_deadlock") => Reason::Exit(None),
            Some("step_timeout") => Reason::Timeout,
            Some("runner_lost") if message.is_some_and(|text| text.starts_with(NEVER_STARTED)) => Reason::NeverStarted,
            Some(
                "worker_lost"
                | "machine_rebooted"
                | "worker_removed"
                | "runner_lost"
                | "result_not_available"
                | "runner_stale"
                | "lease_expired",
            ) => Reason::Lost,
            Some("resolved") => Reason::Person,
            _ => Reason::Final,
        }
    }
}

impl StepPlan {
    /// Never two copies at once: it says so, or writes and is repeated after losses.
    pub(crate) fn stops(&self) -> bool {
        self.stop || (!self.may_repeat() && self.names("worker_lost"))
    }

    /// Its effects let it be handed over again after a loss.
    pub(crate) fn may_repeat(&self) -> bool {
        self.effects != "writes"
    }

    pub(crate) fn executions_max(&self) -> u32 {
        self.retry.as_ref().map_or(1, |retry| retry.attempts)
    }

    /// Whether its policy answers an end of this kind.
    pub(crate) fn retries(&self, reason: Reason) -> bool {
        match reason {
            Reason::Exit(code) => {
                self.names("failure")
                    || (code == Some(75) && self.names("\"exit:75\""))
                    || (code == Some(-9) && self.names("\"signal:9\""))
            }
            Reason::Timeout => self.names("timeout"),
            Reason::Lost => self.names("worker_lost"),
            Reason::NeverStarted | Reason::Person | Reason::Final => false,
        }
    }

    fn names(&self, word: &str) -> bool {
        self.retry.as_ref().is_some_and(|RetryPlan { on, .. }| on.contains(&word))
    }
}

/// The final states of a step, and of a need with the cause of a skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Success,
    Failed,
    Cancelled,
    Skipped,
}

impl End {
    pub(crate) fn of(word: &str) -> Option<End> {
        Some(match word {
            "success" => End::Success,
            "failed" => End::Failed,
            "cancelled" => End::Cancelled,
            "skipped" => End::Skipped,
            _ => return None,
        })
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            End::Success => "success",
            End::Failed => "failed",
            End::Cancelled => "cancelled",
            End::Skipped => "skipped",
        }
    }
}

/// What really happened to one step of a job that is over.
#[derive(Debug, Default)]
pub(crate) struct StepStory {
    /// Granted ones, the oldest first.
    pub attempts: Vec<AttemptStory>,
    /// The jobs that it began, the oldest first.
    pub children: Vec<ChildStory>,
    /// It is one of those that a step became: what holds that one back is over.
    pub is_item: bool,
    /// Who said yes, and whose job it is.
    pub approved_by: BTreeSet<&'static str>,
    pub submitter: &'static str,
    pub rejected: bool,
    /// How a person settled it, where one tried.
    pub resolved: Vec<End>,
    /// The code that its row ended with.
    pub code: Option<&'static str>,
    /// It was not over when its job was told that the database was restored: a person may have decided about it.
    pub was_doubted: bool,
    /// It ran, the record of that was lost, and its worker brought it back: whatever its needs have come to since.
    pub out_of_turn: bool,
    /// It was over when its job was first asked to end, or by the same commit.
    pub before_cancel: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptStory {
    /// Why it came to nothing; none for a success.
    pub reason: Option<Reason>,
    pub code: Option<&'static str>,
    /// How its program really ended; none if it never ran or did not end by itself or by a signal.
    pub program: Option<ProgramEnd>,
    /// The end that the server has from it.
    pub reported: Option<ProgramEnd>,
}

/// How a job ended that a step began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildStory {
    /// None while it is open, which it stays only if nobody waits for it.
    pub end: Option<End>,
    pub reason: Reason,
    /// Something of it was given up, and may still run.
    pub in_doubt: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramEnd {
    Exited(i32),
    Signaled(i32),
}

/// What happened to the whole job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobStory {
    /// Somebody, or its timeout, wanted it to end.
    pub cancelled: bool,
    /// Some attempt of some step was granted.
    pub started: bool,
    /// A batch with it was refused.
    pub refused: bool,
    /// Its concurrency group did not take it: nothing of it began.
    pub turned_away: bool,
    /// Somebody had it stopped, and that is not on record any more.
    pub stopped: bool,
    /// Something went wrong somewhere in this world.
    pub troubled: bool,
    /// What it was given as `n`.
    pub input: i64,
    /// What may be repeated is so often lost in a row at most.
    pub max_losses: u32,
}

impl Default for JobStory {
    fn default() -> JobStory {
        JobStory {
            cancelled: false,
            started: false,
            refused: false,
            turned_away: false,
            stopped: false,
            troubled: false,
            input: 0,
            max_losses: 3,
        }
    }
}

/// The steps that others became: whose they are, and how they ended.
#[derive(Debug, Default)]
pub(crate) struct Items {
    of: BTreeMap<usize, usize>,
    ends: BTreeMap<usize, Vec<End>>,
}

impl Items {
    fn failed_of_a_list_that_was_called_off(&self, plan: &JobPlan, ends: &[(End, Option<&str>)]) -> bool {
        let called_off = |list: usize| {
            let counts = plan.steps.get(list).is_some_and(|step| !step.allow_failure);
            counts && ends.get(list).is_some_and(|(end, _)| *end == End::Cancelled)
        };
        self.ends.iter().any(|(list, ends)| called_off(*list) && ends.contains(&End::Failed))
    }

    pub(crate) fn add(&mut self, item: usize, of: usize, end: End) {
        self.of.insert(item, of);
        self.ends.entry(of).or_default().push(end);
    }

    /// Whether an item of this step failed, besides one that ended like this.
    fn another_failed(&self, step: usize, end: End) -> bool {
        let failed = self.ends.get(&step).map_or(0, |ends| ends.iter().filter(|end| **end == End::Failed).count());
        failed > usize::from(end == End::Failed)
    }

    /// How a step must end whose items ended like this; none if it has none.
    fn end_of(&self, step: usize) -> Option<End> {
        let ends = self.ends.get(&step)?;
        let first = [End::Failed, End::Cancelled, End::Skipped].into_iter().find(|end| ends.contains(end));
        Some(first.unwrap_or(End::Success))
    }
}

/// What a person gives as the output of a step that is settled as a success.
pub(crate) const SETTLED_OUTPUT: i64 = 1;

/// Where the outputs of steps come from, by their index.
#[derive(Debug, Default)]
pub(crate) struct Outputs(BTreeMap<usize, Source>);

/// Who gave a step's output. Without a word on it, its program did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Person,
    /// It was taken over from the job before it, in which a person may have settled it.
    Either,
}

impl Outputs {
    pub(crate) fn add(&mut self, step: usize, source: Source) {
        self.0.insert(step, source);
    }

    /// What the step's output may be, if those who do it give this one; none where it has no such field.
    fn possible(&self, step: usize, given: Option<i64>) -> Vec<Option<i64>> {
        match self.0.get(&step) {
            None => vec![given],
            Some(Source::Person) => vec![Some(SETTLED_OUTPUT)],
            Some(Source::Either) => vec![given, Some(SETTLED_OUTPUT)],
        }
    }
}

/// The ends that the truth allows for a step, given how its needs ended and what they gave.
pub(crate) fn step_ends(
    plan: &JobPlan,
    index: usize,
    ends: &[End],
    outputs: &Outputs,
    items: &Items,
    job: &JobStory,
    story: &StepStory,
) -> Vec<End> {
    let of = items.of.get(&index).copied().unwrap_or(index);
    let step = &plan.steps[of];
    let needs = Needs::of(plan, of, ends);
    let mut allowed = Vec::new();
    // It is what its items are; and those are called off where one of them failed.
    allowed.extend(items.end_of(index));
    let fails_fast = step.fan.as_ref().is_some_and(|fan| fan.fail_fast);
    if of != index && fails_fast && items.another_failed(of, ends[index]) {
        allowed.extend([End::Cancelled, End::Failed]);
    }
    if of != index && ends[of] == End::Skipped {
        allowed.push(End::Skipped);
    }
    for answer in condition(plan, step, (job, story), &needs, ends, outputs) {
        match answer {
            Some(true) => {
                let lists = lists(step, story, ends, outputs);
                allowed.extend(lists.contains(&false).then_some(End::Failed));
                if lists.contains(&true) {
                    admitted(step, job, story, &mut allowed);
                }
            }
            Some(false) => allowed.push(End::Skipped),
            // What it asks for is not there: the condition itself fails.
            None => allowed.push(End::Failed),
        }
    }
    if story.out_of_turn {
        admitted(step, job, story, &mut allowed);
    }
    if job.cancelled {
        allowed.push(End::Cancelled);
        // What runs although the job is cancelled was asked with other answers.
        if matches!(step.condition, Condition::Failure | Condition::Always | Condition::Cancelled) {
            allowed.extend(lists(step, story, ends, outputs).contains(&false).then_some(End::Failed));
            admitted(step, job, story, &mut allowed);
        }
    }
    if plan.expires.is_some() && !job.started {
        allowed.push(match step.kind {
            _ if story.code != Some("expired") => End::Skipped,
            Kind::Work(_) => End::Failed,
            Kind::Approve => End::Cancelled,
        });
        // It may have waited for something else than a worker.
        let held = step.gate.is_some() || story.was_doubted;
        allowed.extend((held && story.code == Some("expired")).then_some(End::Cancelled));
    }
    if job.turned_away {
        allowed.push(if step.needs.is_empty() { End::Failed } else { End::Skipped });
    }
    let told_to_stop = story.attempts.last().is_some_and(|last| last.code == Some("cancelled"));
    if job.stopped && told_to_stop {
        allowed.push(End::Cancelled);
    }
    if job.refused && story.code == Some("internal") {
        allowed.extend([End::Failed, End::Cancelled]);
    }
    allowed.sort();
    allowed.dedup();
    allowed
}

/// The state of a job whose steps ended like this, and at these times.
pub(crate) fn job_end(
    plan: &JobPlan,
    ends: &[(End, Option<&str>)],
    items: &Items,
    times: &[Duration],
    job: &JobStory,
) -> End {
    if job.cancelled && ends.iter().any(|(end, _)| *end == End::Cancelled) {
        return End::Cancelled;
    }
    if job.turned_away {
        return End::Failed;
    }
    // That it never started is the job's own failure, whatever its steps may do. A step that failed so had a child that expired.
    let expired = |(step, (end, code)): (&StepPlan, &(End, Option<&str>))| {
        *code == Some("expired") && (step.child.is_none() || *end == End::Cancelled)
    };
    // Items have no plan of their own; where one has begun a child, the job has started.
    let items_expired = !job.started && ends.iter().skip(plan.steps.len()).any(|(_, code)| *code == Some("expired"));
    if plan.steps.iter().zip(ends).any(expired) || items_expired {
        return End::Failed;
    }
    // What ended first says why.
    let counts = |wanted: End| {
        let all = plan.steps.iter().zip(ends).zip(times);
        let such = all.filter(|((step, (end, _)), _)| *end == wanted && !step.allow_failure);
        such.min_by_key(|(_, at)| **at).map(|((_, (_, code)), _)| *code)
    };
    match (counts(End::Failed), counts(End::Cancelled)) {
        (Some(_), _) | (None, Some(Some("internal"))) => End::Failed,
        // A person may be asked about a list again of which everything has ended, in a job that goes on for another.
        (None, Some(_)) if items.failed_of_a_list_that_was_called_off(plan, ends) => End::Failed,
        (None, Some(_)) => End::Cancelled,
        (None, None) => End::Success,
    }
}

/// What is wrong with what the server has of an attempt's end.
pub(crate) fn misreported(attempt: &AttemptStory) -> Option<String> {
    let reported = attempt.reported?;
    (attempt.program != Some(reported)).then(|| format!("is on record as {reported:?}, and was {:?}", attempt.program))
}

struct Needs {
    satisfied: bool,
    failed: bool,
}

impl Needs {
    fn of(plan: &JobPlan, index: usize, ends: &[End]) -> Needs {
        let mut needs = Needs { satisfied: true, failed: false };
        for need in &plan.steps[index].needs {
            let (end, forgiven) = (ends[need.step], plan.steps[need.step].allow_failure);
            let as_success = end == End::Failed && forgiven && need.on.contains(&"success");
            needs.satisfied &= need.on.contains(&end.word()) || as_success;
            needs.failed |= match end {
                End::Failed => !forgiven,
                // Skipped for something that failed, near or far.
                End::Skipped => Needs::of(plan, need.step, ends).failed,
                End::Success | End::Cancelled => false,
            };
        }
        needs
    }
}

/// Whether the list is there that the step goes over, by each output that it may have read.
fn lists(step: &StepPlan, story: &StepStory, ends: &[End], outputs: &Outputs) -> Vec<bool> {
    match step.fan.as_ref().and_then(|fan| fan.from).filter(|_| !story.is_item) {
        None => vec![true],
        Some(from) if ends[from] != End::Success => vec![false],
        // A person gives no list.
        Some(from) => outputs.possible(from, None).into_iter().map(|output| output.is_none()).collect(),
    }
}

/// Whether the step's condition held, by each output that it may have read; none where it could not be answered.
fn condition(
    plan: &JobPlan,
    step: &StepPlan,
    (job, story): (&JobStory, &StepStory),
    needs: &Needs,
    ends: &[End],
    outputs: &Outputs,
) -> Vec<Option<bool>> {
    match step.condition {
        Condition::Success => vec![Some(needs.satisfied)],
        Condition::Failure => vec![Some(needs.failed)],
        Condition::Always => vec![Some(true)],
        Condition::Cancelled => vec![Some(job.cancelled && !story.before_cancel)],
        Condition::OutputAbove { .. } | Condition::StateIs { .. } | Condition::InputAbove { .. }
            if !needs.satisfied =>
        {
            vec![Some(false)]
        }
        Condition::StateIs { step: of, state } => vec![Some(ends[of].word() == state)],
        Condition::InputAbove { number } => vec![Some(job.input > number)],
        Condition::OutputAbove { step: of, number } => match (plan.steps[of].kind, ends[of]) {
            (Kind::Work(behaviour), End::Success) => {
                // The output of many is a list, that of a job an object with its steps' names.
                let by_others = plan.steps[of].fan.is_some() || plan.steps[of].child.is_some();
                let given = (!by_others).then_some(behaviour.output);
                outputs.possible(of, given).into_iter().map(|output| Some(output? > number)).collect()
            }
            _ => vec![None],
        },
    }
}

/// How a step may end that was to run.
fn admitted(step: &StepPlan, job: &JobStory, story: &StepStory, allowed: &mut Vec<End>) {
    if story.was_doubted {
        allowed.extend(story.rejected.then_some(End::Cancelled));
        allowed.extend((step.gate.is_some() && story.code == Some("hold_expired")).then_some(End::Cancelled));
        allowed.extend(story.resolved.iter().copied());
    }
    if step.reviewers() > 0 && !story.is_item {
        allowed.extend(story.rejected.then_some(End::Cancelled));
        let may_expire = step.hold_expires.is_some() || step.kind != Kind::Approve;
        allowed.extend((may_expire && story.code == Some("hold_expired")).then_some(End::Cancelled));
        if !step.is_approved(&story.approved_by, story.submitter) {
            return;
        }
    }
    if let Kind::Approve = step.kind {
        return allowed.push(End::Success);
    }
    if step.child.is_some() {
        return by_a_job(step, job, story, allowed);
    }
    if job.troubled && matches!(story.code, Some("dispatch_exhausted")) {
        allowed.push(End::Failed);
    }
    // Every server always has the other one.
    if step.secret == Some(RARE) && story.code == Some("secret") {
        allowed.push(End::Failed);
    }
    if job.troubled && !step.waits_for_worker && story.code == Some("unmatched") {
        allowed.push(End::Failed);
    }
    let Some(last) = story.attempts.last() else { return };
    match last.reason {
        None => allowed.push(End::Success),
        Some(Reason::Person) => allowed.extend(story.resolved.iter().copied()),
        Some(Reason::NeverStarted) => {}
        Some(reason) if is_due_again(step, job, story, reason) => {}
        Some(_) => allowed.push(End::Failed),
    }
}

/// How a step may end that a job was to do.
fn by_a_job(step: &StepPlan, job: &JobStory, story: &StepStory, allowed: &mut Vec<End>) {
    let Some(last) = story.children.last() else { return };
    let timed_out = step.timeout.is_some() && story.code == Some("step_timeout");
    let reason = if timed_out { Reason::Timeout } else { last.reason };
    let executed = story.children.len() < step.executions_max() as usize;
    // Beside what may still run of it nobody begins another.
    let due_again = step.retries(reason) && executed && !last.in_doubt && !job.cancelled;
    match last.end {
        Some(End::Success) => allowed.push(End::Success),
        // Its own timeout is nobody's wish.
        Some(End::Cancelled) if !timed_out && last.reason != Reason::Timeout => allowed.push(End::Cancelled),
        Some(_) if due_again => {}
        Some(_) => allowed.push(End::Failed),
        None => {}
    }
}

/// Whether the last attempt should have been followed by another one.
fn is_due_again(step: &StepPlan, job: &JobStory, story: &StepStory, reason: Reason) -> bool {
    let code = story.attempts.last().and_then(|last| last.code);
    // Of these nobody knows whether anything still runs, so that there may be no ground for another one.
    let unanswered = reason == Reason::Timeout && story.attempts.last().is_some_and(|last| last.reported.is_none());
    let in_doubt = unanswered || matches!(code, Some("runner_stale" | "worker_removed"));
    if job.cancelled || in_doubt {
        return false;
    }
    if step.retries(reason) {
        let counted = story.attempts.iter().filter(|attempt| counts_as_execution(step, attempt)).count();
        return counted < step.executions_max() as usize;
    }
    // What never ran and what a person wanted again says nothing about the workers.
    let about_workers = |reason: &Reason| !matches!(reason, Reason::NeverStarted | Reason::Person);
    let reasons = story.attempts.iter().rev().filter_map(|attempt| attempt.reason).filter(about_workers);
    let lost_in_a_row = reasons.take_while(|reason| *reason == Reason::Lost).count();
    reason == Reason::Lost && step.may_repeat() && lost_in_a_row < job.max_losses as usize
}

/// A repeat by effects, a void and a person's wish spend nothing of the policy.
fn counts_as_execution(step: &StepPlan, attempt: &AttemptStory) -> bool {
    match attempt.reason {
        Some(Reason::NeverStarted | Reason::Person) => false,
        // Where effects forbid a repeat, one that has a successor ended by the policy, and the word of that was lost.
        Some(Reason::Lost) => step.retries(Reason::Lost) || !step.may_repeat(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::workload::{Behaviour, ChildPlan, FanPlan, GatePlan, NeedPlan};

    fn job(change: impl FnOnce(&mut StepPlan)) -> JobPlan {
        let text = ["work", "1000", "0", "0", "0", "1", "0", "0", "5"].map(str::to_owned);
        let behaviour = Behaviour::parse(&text).expect("a behaviour");
        let step = |name: &str, needs| StepPlan { needs, ..StepPlan::plain(name, behaviour) };
        let mut last = step("b", vec![NeedPlan { step: 0, on: vec!["success"] }]);
        change(&mut last);
        let steps = vec![step("a", Vec::new()), last];
        JobPlan::plain("job", steps)
    }

    fn ended(reason: Option<Reason>) -> AttemptStory {
        AttemptStory { reason, code: None, program: None, reported: None }
    }

    /// What the second step may come to after this end of the first, and these attempts of its own.
    fn allowed(plan: &JobPlan, first: End, story: &JobStory, attempts: Vec<AttemptStory>) -> Vec<End> {
        let told = StepStory { attempts, ..StepStory::default() };
        given(plan, first, &Outputs::default(), story, &told)
    }

    fn given(plan: &JobPlan, first: End, outputs: &Outputs, story: &JobStory, told: &StepStory) -> Vec<End> {
        step_ends(plan, 1, &[first, End::Success], outputs, &Items::default(), story, told)
    }

    #[test]
    fn a_list_that_was_called_off_fails_its_job_if_items_of_it_had_failed() {
        let plan = job(|_| ());
        let mut ends = vec![(End::Success, None); plan.steps.len()];
        ends[0] = (End::Cancelled, Some("rejected"));
        ends.push((End::Failed, Some("signal")));
        let (times, quiet) = (vec![Duration::ZERO; ends.len()], JobStory::default());
        let mut items = Items::default();
        assert_eq!(job_end(&plan, &ends, &items, &times, &quiet), End::Cancelled, "an item of another list");
        items.add(plan.steps.len(), 0, End::Failed);
        assert_eq!(job_end(&plan, &ends, &items, &times, &quiet), End::Failed);
    }

    #[test]
    fn a_job_whose_items_expired_with_it_has_failed() {
        let mut plan = job(|_| ());
        plan.steps.iter_mut().for_each(|step| step.allow_failure = true);
        let mut ends = vec![(End::Failed, Some("resolved")); plan.steps.len()];
        let times = vec![Duration::ZERO; plan.steps.len() + 1];
        assert_eq!(
            job_end(&plan, &ends, &Items::default(), &times, &JobStory::default()),
            End::Success,
            "that failure is allowed"
        );
        ends.push((End::Failed, Some("expired")));
        assert_eq!(job_end(&plan, &ends, &Items::default(), &times, &JobStory::default()), End::Failed);
        let started = JobStory { started: true, ..JobStory::default() };
        assert_eq!(
            job_end(&plan, &ends, &Items::default(), &times, &started),
            End::Success,
            "it was a child that expired"
        );
    }

    #[test]
    fn a_step_that_ran_in_peace_has_one_end() {
        let (plan, quiet) = (job(|_| {}), JobStory::default());
        assert_eq!(allowed(&plan, End::Success, &quiet, vec![ended(None)]), [End::Success]);
        assert_eq!(allowed(&plan, End::Success, &quiet, vec![ended(Some(Reason::Exit(Some(1))))]), [End::Failed]);
        assert_eq!(allowed(&plan, End::Failed, &quiet, Vec::new()), [End::Skipped]);
        assert_eq!(allowed(&plan, End::Success, &quiet, Vec::new()), [], "it should have run");
    }

    #[test]
    fn approvals_of_different_people_are_counted() {
        let gate = GatePlan { reviewers: 2, allow_submitter: false, wait: None };
        let plan = job(|step| (step.kind, step.gate) = (Kind::Approve, Some(gate)));
        let after = |submitter, by: &[&'static str]| {
            let told = StepStory { approved_by: by.iter().copied().collect(), submitter, ..StepStory::default() };
            given(&plan, End::Success, &Outputs::default(), &JobStory::default(), &told)
        };
        assert_eq!(after("ann", &["ben"]), [], "it should wait");
        assert_eq!(after("ann", &["ann", "ben"]), [], "ann submitted it");
        assert_eq!(after("ann", &["ben", "cat"]), [End::Success]);
        assert_eq!(after("cat", &["ben", "cat"]), [], "cat submitted it");
    }

    #[test]
    fn what_is_to_be_tried_again_is_no_end() {
        let plan = job(|step| {
            let on = vec!["failure"];
            step.retry = Some(RetryPlan::of(2, on, Duration::ZERO));
        });
        let (quiet, failed) = (JobStory::default(), ended(Some(Reason::Exit(Some(1)))));
        assert_eq!(allowed(&plan, End::Success, &quiet, vec![failed]), []);
        assert_eq!(allowed(&plan, End::Success, &quiet, vec![failed, failed]), [End::Failed]);
        let lost = ended(Some(Reason::Lost));
        assert_eq!(allowed(&plan, End::Success, &quiet, vec![lost]), [End::Failed], "it writes");
        let repeats = job(|step| step.effects = "none");
        assert_eq!(allowed(&repeats, End::Success, &quiet, vec![lost, lost]), []);
        assert_eq!(allowed(&repeats, End::Success, &quiet, vec![lost, lost, lost]), [End::Failed]);
        let never = ended(Some(Reason::NeverStarted));
        assert_eq!(
            allowed(&repeats, End::Success, &quiet, vec![lost, lost, never, lost]),
            [End::Failed],
            "a void is no break"
        );
    }

    #[test]
    fn a_cancel_leaves_what_really_happened_or_cancelled() {
        let cancelled = JobStory { cancelled: true, ..JobStory::default() };
        let ends = allowed(&job(|_| {}), End::Success, &cancelled, vec![ended(None)]);
        assert_eq!(ends, [End::Success, End::Cancelled]);
    }

    #[test]
    fn a_step_ends_as_its_job_does() {
        let quiet = JobStory::default();
        let plan = job(|step| {
            let child = JobPlan { steps: Vec::new(), ..job(|_| {}) };
            step.child = Some(Box::new(ChildPlan { job: child, given: 0 }));
            step.retry = Some(RetryPlan::of(2, vec!["failure"], Duration::ZERO));
        });
        let ended = |end, reason| ChildStory { end: Some(end), reason, in_doubt: false };
        let allowed = |children: &[ChildStory]| {
            let told = StepStory { children: children.to_vec(), ..StepStory::default() };
            let ends = [End::Success, End::Success];
            step_ends(&plan, 1, &ends, &Outputs::default(), &Items::default(), &quiet, &told)
        };
        let failed = ended(End::Failed, Reason::Exit(Some(1)));
        assert_eq!(allowed(&[]), [], "it should have begun one");
        assert_eq!(allowed(&[ended(End::Success, Reason::Final)]), [End::Success]);
        assert_eq!(allowed(&[ended(End::Cancelled, Reason::Final)]), [End::Cancelled]);
        assert_eq!(allowed(&[failed]), [], "another one is due");
        assert_eq!(allowed(&[failed, failed]), [End::Failed]);
        assert_eq!(allowed(&[ChildStory { in_doubt: true, ..failed }]), [End::Failed], "it may still run");
        assert_eq!(allowed(&[ended(End::Cancelled, Reason::Timeout)]), [End::Failed], "nobody wished for that");
    }

    #[test]
    fn what_may_have_run_before_a_restore_is_for_people_to_decide() {
        let ends = |was_doubted| {
            let (rejected, resolved) = (true, vec![End::Failed]);
            let told = StepStory { was_doubted, rejected, resolved, ..StepStory::default() };
            given(&job(|_| {}), End::Success, &Outputs::default(), &JobStory::default(), &told)
        };
        assert_eq!(ends(true), [End::Failed, End::Cancelled]);
        assert_eq!(ends(false), [], "nobody was asked");
    }

    #[test]
    fn conditions_read_what_was() {
        let quiet = JobStory::default();
        let on_failure = job(|step| step.condition = Condition::Failure);
        assert_eq!(allowed(&on_failure, End::Success, &quiet, Vec::new()), [End::Skipped]);
        assert_eq!(allowed(&on_failure, End::Failed, &quiet, vec![ended(None)]), [End::Success]);
        let above = |number| job(|step| step.condition = Condition::OutputAbove { step: 0, number });
        assert_eq!(allowed(&above(4), End::Success, &quiet, vec![ended(None)]), [End::Success]);
        assert_eq!(allowed(&above(5), End::Success, &quiet, Vec::new()), [End::Skipped]);
    }

    #[test]
    fn what_asks_for_a_cancel_runs_after_one() {
        let (quiet, cancelled) = (JobStory::default(), JobStory { cancelled: true, ..JobStory::default() });
        let plan = job(|step| step.condition = Condition::Cancelled);
        assert_eq!(allowed(&plan, End::Success, &quiet, vec![ended(None)]), [End::Skipped], "nobody cancelled");
        assert_eq!(allowed(&plan, End::Cancelled, &cancelled, Vec::new()), [End::Cancelled], "it was dropped, too");
        assert_eq!(allowed(&plan, End::Cancelled, &cancelled, vec![ended(None)]), [End::Success, End::Cancelled]);
        let before = StepStory { before_cancel: true, ..StepStory::default() };
        let ends = given(&plan, End::Success, &Outputs::default(), &cancelled, &before);
        assert!(ends.contains(&End::Skipped), "the cancel came later: {ends:?}");
    }

    #[test]
    fn a_list_that_nobody_gave_cannot_be_gone_over() {
        let plan = job(|step| {
            let Kind::Work(behaviour) = step.kind else { return };
            step.fan = Some(FanPlan { from: Some(0), ..FanPlan::over(vec![behaviour]) });
            step.needs[0].on = vec!["success", "failed"];
        });
        let quiet = JobStory::default();
        assert_eq!(allowed(&plan, End::Failed, &quiet, Vec::new()), [End::Failed]);
        assert_eq!(allowed(&plan, End::Success, &quiet, Vec::new()), [], "it has a list");
        let mut outputs = Outputs::default();
        outputs.add(0, Source::Person);
        assert_eq!(given(&plan, End::Success, &outputs, &quiet, &StepStory::default()), [End::Failed]);
    }

    #[test]
    fn conditions_read_what_a_person_gave() {
        let (quiet, unseen) = (JobStory::default(), StepStory::default());
        let above = |number| job(|step| step.condition = Condition::OutputAbove { step: 0, number });
        let ends = |number, source| {
            let mut outputs = Outputs::default();
            outputs.add(0, source);
            given(&above(number), End::Success, &outputs, &quiet, &unseen)
        };
        assert_eq!(ends(0, Source::Person), [], "it should have run");
        assert_eq!(ends(4, Source::Person), [End::Skipped]);
        assert_eq!(ends(4, Source::Either), [End::Skipped], "and may have run");
    }

    #[test]
    fn a_job_that_its_group_does_not_take_fails_before_it_begins() {
        let plan = job(|step| step.allow_failure = true);
        let story = JobStory { turned_away: true, ..JobStory::default() };
        assert_eq!(allowed(&plan, End::Failed, &story, Vec::new()), [End::Skipped]);
        let first = |story| {
            let ends = [End::Failed, End::Skipped];
            step_ends(&plan, 0, &ends, &Outputs::default(), &Items::default(), story, &StepStory::default())
        };
        assert_eq!((first(&story), first(&JobStory::default())), (vec![End::Failed], vec![]));
        let ends = [(End::Failed, Some("group_full")), (End::Skipped, None)];
        assert_eq!(job_end(&plan, &ends, &Items::default(), &[Duration::ZERO; 2], &story), End::Failed);
        assert_eq!(Reason::of(Some("group_full"), None, None), Reason::Exit(None));
    }

    #[test]
    fn a_job_is_what_its_steps_are() {
        let (plan, quiet) = (job(|_| {}), JobStory::default());
        let cancelled = JobStory { cancelled: true, ..quiet };
        let at_once = [Duration::ZERO; 2];
        let end =
            |first, second, story| job_end(&plan, &[(first, None), (second, None)], &Items::default(), &at_once, story);
        assert_eq!(end(End::Success, End::Success, &quiet), End::Success);
        assert_eq!(end(End::Failed, End::Skipped, &quiet), End::Failed);
        assert_eq!(end(End::Success, End::Cancelled, &quiet), End::Cancelled);
        assert_eq!(end(End::Failed, End::Cancelled, &cancelled), End::Cancelled);
        assert_eq!(end(End::Success, End::Success, &cancelled), End::Success);
    }

    #[test]
    fn a_job_is_what_first_ended_it() {
        let ends = [(End::Cancelled, Some("internal")), (End::Cancelled, Some("hold_expired"))];
        let end = |first: u64, second: u64| {
            let times = [Duration::from_secs(first), Duration::from_secs(second)];
            job_end(&job(|_| {}), &ends, &Items::default(), &times, &JobStory::default())
        };
        assert_eq!(end(1, 2), End::Failed);
        assert_eq!(end(1, 1), End::Failed, "of those that ended together the one that stands first");
        assert_eq!(end(2, 1), End::Cancelled);
    }

    #[test]
    fn a_program_that_ended_otherwise_is_misreported() {
        let told = |program| AttemptStory { program, reported: Some(ProgramEnd::Exited(0)), ..ended(None) };
        assert_eq!(misreported(&told(Some(ProgramEnd::Exited(0)))), None);
        assert!(misreported(&told(Some(ProgramEnd::Exited(1)))).is_some());
        assert!(misreported(&told(None)).is_some());
    }
}
