//! Promise: nothing jams. Once nothing fails any more, every job ends within the time that its own work takes, and nothing
//! stands still on the way there.
//!
//! The bound: whoever is away comes back, is waited for, and is judged (the longest reconnect delay, a quiet stretch of one
//! and a half times that, the window and the one more that a mass loss may bring); then all open work is done by the slots of
//! the first two hosts, which can do everything. Work that is handed out as soon as a slot is free takes no longer than its
//! longest chain and all of it shared by the slots (Graham).

use std::collections::BTreeMap;
use std::time::Duration;

use engine::JobId;

use super::Findings;
use super::plans::Plans;
use super::rows::{JobSeen, Place, Rows};
use crate::setup::Setup;
use crate::workload::{Behaviour, JobPlan, Kind, RetryPlan, StepPlan};

const CHECKER: &str = "liveness";

/// Connecting, messages, commits.
const SLACK: Duration = Duration::from_secs(60);

/// What an order to stop may take beyond its grace.
const STOP_MARGIN: Duration = Duration::from_secs(12);

/// A person looks in so often, and approves one step at a time.
const TEND: Duration = Duration::from_secs(20);

/// After a restore somebody looks into what is held, and waits for those that may know better.
const LOOK_INTO: Duration = Duration::from_secs(360);

/// One hand-over: an offer that is refused or unanswered, and the next.
const HAND_OVER: Duration = Duration::from_secs(15);

/// Once all are back, this long may a step stand still though something could move it: a sweep, and a heartbeat before it.
const STILL_MAX: Duration = Duration::from_secs(150);

pub(crate) struct Liveness {
    /// For all to be back, and for whoever is not to be judged.
    settle: Duration,
    slots: u32,
    doubt_max: Duration,
    peace: Option<Peace>,
}

#[derive(Debug, Clone, Copy)]
struct Peace {
    settled_at: Duration,
    over_by: Duration,
}

impl Liveness {
    pub(crate) fn new(setup: &Setup) -> Liveness {
        let reconnect = Duration::from_millis(setup.core.link.max_reconnect_delay_ms);
        let settle = reconnect + reconnect.mul_f64(1.5) + 2 * setup.core.rules.recovery_window + SLACK;
        let slots = setup.hosts.iter().take(2).map(|host| host.slots).sum();
        Liveness { settle, slots, doubt_max: setup.core.doubt_max, peace: None }
    }

    /// Nothing fails from now on. `restored`: an operator has said that the database was.
    pub(crate) fn peace(&mut self, now: Duration, rows: &Rows, plans: &Plans, restored: bool) {
        let mut all = Duration::ZERO;
        let mut longest = Duration::ZERO;
        // Jobs of a concurrency group may have to follow each other, and the first what may still run.
        let mut in_turn = Duration::ZERO;
        // A job of which no server has said anything yet is all to be done.
        let known = |name: &str| rows.jobs.values().any(|job| job.task == name);
        // What a job is waited for by another one is in the work of that.
        let waited_for =
            |job: &JobSeen| job.parent.and_then(|parent| rows.job(parent.job)).is_some_and(|it| !it.is_final);
        for (id, job) in rows.open_jobs().filter(|(_, job)| !waited_for(job)) {
            let Some(plan) = plans.job(rows, id) else { continue };
            let (sum, mut chain) = work_left(plan, Some(job));
            all += sum;
            if restored {
                // Each of its steps may have to be asked for, one after the other.
                chain += 2 * TEND * plan.with_children().iter().map(|plan| plan.steps.len() as u32).sum();
            }
            longest = longest.max(chain);
            in_turn += if takes_turns(plan) { sum } else { Duration::ZERO };
        }
        // Of what comes by itself, one more may.
        for plan in plans.all().filter(|plan| !known(&plan.name)).chain(plans.scheduled()) {
            let (sum, chain) = work_left(plan, None);
            all += sum;
            longest = longest.max(chain);
            in_turn += if takes_turns(plan) { sum } else { Duration::ZERO };
        }
        if !in_turn.is_zero() {
            in_turn += self.doubt_max;
        }
        if restored {
            longest += LOOK_INTO;
        }
        let settled_at = now + self.settle;
        let over_by = settled_at + longest + in_turn + all / self.slots.max(1);
        self.peace = Some(Peace { settled_at, over_by });
    }

    /// Whether nothing has failed for long enough.
    pub(super) fn is_settled(&self, now: Duration) -> bool {
        self.peace.is_some_and(|peace| now > peace.settled_at)
    }

    /// Whether the bound is over while something is still open.
    pub(crate) fn look(&mut self, now: Duration, rows: &Rows, found: &mut Findings) {
        if self.peace.is_some_and(|peace| now > peace.over_by) && rows.has_open_jobs() {
            let open: Vec<String> = rows.open_jobs().map(|(id, job)| told(id, job)).collect();
            found.add(CHECKER, format!("not over in time after peace: {}", open.join("; ")));
            self.peace = None;
        }
    }

    /// Steps that stand still though all are back. `over_since`: since when nothing of a running step's attempt lives. `in_doubt`: it is
    /// for people to say what is to become of it.
    pub(crate) fn look_for_the_stuck(
        &self,
        now: Duration,
        (rows, plans): (&Rows, &Plans),
        over_since: impl Fn(Place) -> Option<Duration>,
        in_doubt: impl Fn(Place) -> bool,
        found: &mut Findings,
    ) {
        let Some(peace) = self.peace.filter(|peace| now > peace.settled_at + STILL_MAX) else { return };
        // With every look of a person at least one of those is moved on.
        let asked_for: usize = rows.open_jobs().filter_map(|(id, job)| Some(asks(plans.job(rows, id)?, job))).sum();
        let people = TEND * (3 + 2 * u32::try_from(asked_for).unwrap_or(u32::MAX));
        for (id, job) in rows.open_jobs() {
            for (ix, step) in job.steps.iter().filter(|(_, step)| !step.is_final) {
                let place = Place { job: id, step: *ix };
                let Some(plan) = plans.step(rows, place) else { continue };
                let since = step.since.max(peace.settled_at);
                let moves_by = match step.state {
                    // An item has its turn when others are over.
                    "pending" if step.item_of().is_some() => None,
                    // Whether there is room is another checker's.
                    "pending" if job.in_line => None,
                    "pending" => needs_final_since(job, plan).map(|at| at.max(since) + SLACK),
                    "running" => over_since(place).map(|at| at.max(since) + STILL_MAX),
                    "recovering" => Some(since + STILL_MAX),
                    "held" if in_doubt(place) => over_since(place).map(|at| at.max(since) + LOOK_INTO),
                    "held" if !step.was_doubted && is_asked_for(plan) => Some(since + people + STILL_MAX),
                    "waiting" => Some(since + longest_wait(plan) + STILL_MAX),
                    // It is over when its job is.
                    "cancelling" if plan.child.is_some() => None,
                    "cancelling" => Some(since + plan.stop_time() + STOP_MARGIN + SLACK),
                    // Whether a worker could have taken it is another checker's.
                    _ => None,
                };
                if moves_by.is_some_and(|by| by < now) {
                    let still = now - since;
                    let state = step.state;
                    found.add(
                        CHECKER,
                        format!("step {} of {id} has been {state} for {still:?}, and nothing moves it", ix.0),
                    );
                }
            }
        }
    }
}

/// Whether people are asked before it goes on.
fn is_asked_for(plan: &StepPlan) -> bool {
    plan.kind == Kind::Approve || plan.gate.is_some()
}

/// For how many steps of a job people may still be asked.
fn asks(plan: &JobPlan, job: &JobSeen) -> usize {
    let open = |index: usize| job.steps.get(&engine::StepIx::of(index)).is_none_or(|step| !step.is_final);
    plan.steps.iter().enumerate().filter(|(index, step)| open(*index) && is_asked_for(step)).count()
}

/// The longest that a step waits for a time: before it is tried again, or before its environment lets it run.
fn longest_wait(plan: &StepPlan) -> Duration {
    delays(plan) + plan.gate.as_ref().and_then(|gate| gate.wait).unwrap_or_default()
}

/// It has a concurrency group, or something that it waits for has.
fn takes_turns(plan: &JobPlan) -> bool {
    plan.with_children().iter().any(|plan| plan.group.is_some())
}

fn needs_final_since(job: &JobSeen, plan: &StepPlan) -> Option<Duration> {
    let ends = plan.needs.iter().map(|need| {
        let ix = engine::StepIx::of(need.step);
        job.steps.get(&ix).filter(|step| step.is_final).map(|step| step.since)
    });
    ends.collect::<Option<Vec<Duration>>>().map(|ends| ends.into_iter().max().unwrap_or_default())
}

/// All of a job's open work, and its longest chain.
fn work_left(plan: &JobPlan, job: Option<&JobSeen>) -> (Duration, Duration) {
    let mut chains: BTreeMap<usize, Duration> = BTreeMap::new();
    let mut all = Duration::ZERO;
    for (index, step) in plan.steps.iter().enumerate() {
        let is_final = job.and_then(|job| job.steps.get(&engine::StepIx::of(index))).is_some_and(|step| step.is_final);
        let work = if is_final { Duration::ZERO } else { work_of(step) };
        let before = step.needs.iter().filter_map(|need| chains.get(&need.step)).max().copied();
        chains.insert(index, before.unwrap_or_default() + work);
        all += work;
    }
    (all, chains.into_values().max().unwrap_or_default())
}

/// The longest that a step can take while nothing fails; one execution may just have been lost.
fn work_of(step: &StepPlan) -> Duration {
    let Kind::Work(behaviour) = step.kind else { return 2 * TEND };
    let held = step.gate.as_ref().map_or(Duration::ZERO, |gate| gate.wait.unwrap_or_default() + 2 * TEND);
    if let Some(child) = &step.child {
        let once: Duration = child.job.steps.iter().map(work_of).sum();
        let many = step.fan.as_ref().map_or(1, |fan| fan.items.len() as u32);
        return held + many * (once * (step.executions_max() + 1) + delays(step));
    }
    held + match &step.fan {
        Some(fan) => fan.items.iter().map(|item| work_of_one(step, item)).sum(),
        None => work_of_one(step, &behaviour),
    }
}

fn work_of_one(step: &StepPlan, behaviour: &Behaviour) -> Duration {
    let stopped = step.timeout.map_or(Duration::MAX, |timeout| timeout + step.stop_time() + STOP_MARGIN);
    let once = behaviour.takes.min(stopped) + HAND_OVER;
    once * (step.executions_max() + 1) + delays(step)
}

/// The waits between all its executions.
fn delays(step: &StepPlan) -> Duration {
    step.retry.as_ref().map_or(Duration::ZERO, RetryPlan::delays)
}

fn told(id: JobId, job: &JobSeen) -> String {
    let steps: Vec<&str> = job.steps.values().map(|step| step.state).collect();
    format!("{id} is {} ({})", job.state, steps.join(" "))
}
