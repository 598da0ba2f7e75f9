//! Promise: nothing unsafe runs twice, as the steps' processes really lived. Nothing executes without a committed start; an
//! attempt executes once; a successor is granted only for a reason that policy or effects allow, within their budgets, and
//! only on a ground of the successor rule; of a step that stops when it is cut off, and of one that writes, there are never
//! two copies at once.
//!
//! A cleanup executes once, after all of its step is gone, and counts as a copy of it; after a kill or the end of a lease there
//! is none.
//!
//! The design's own exception: a machine that slept may hold a copy that its lease could not end; it must be gone right after
//! the machine wakes up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{AttemptId, JobId, WorkerId};
use protocol::attempt::Ticket;
use store::rows::AttemptRow;

use super::FASTEST_CLOCK;
use super::Findings;
use super::plans::Plans;
use super::restored::{is_in_doubt, is_vouched_for};
use super::rows::{AttemptSeen, Place, Rows, put_back};
use crate::model::{ProgramEnd, Reason};
use crate::setup::Setup;
use crate::workload::StepPlan;

/// The installation's time leaps by so much at most where a server goes on that stood still, and nobody calls it a leap.
const CLOCK_LEAP: Duration = Duration::from_secs(2);

const CHECKER: &str = "successor";

/// From the wake-up of a machine to the end of what outlived its lease in its sleep.
const AFTER_WAKE: Duration = Duration::from_secs(1);

/// From leave to exec, beyond the time for which leave is good.
const EXEC: Duration = Duration::from_secs(1);

/// A step by its name, in the first job of its line: an item stands wherever its list came up, and after a loss another one may
/// stand there.
type Line = (JobId, String);

pub(crate) struct Lives {
    children: Vec<Child>,
    by_ticket: BTreeMap<Ticket, usize>,
    /// The children of a step, and of the same step in jobs that went on from it.
    by_step: BTreeMap<Line, Vec<usize>>,
    budgets: BTreeMap<Place, Budget>,
    /// Steps that a person wanted to run once more.
    reruns: BTreeSet<Place>,
    hosts: BTreeMap<usize, Sleep>,
    window: Duration,
    leave_good_for: Duration,
    max_losses: u32,
    /// Workers that said that they will not come back.
    no_return: BTreeSet<WorkerId>,
    /// Attempts whose start was committed, and is not on record any more.
    unrecorded: BTreeMap<AttemptId, Unrecorded>,
    /// When the last of them was brought back, and of which steps some were then.
    brought_back: (Duration, BTreeSet<Place>),
    /// Attempts whose workers have put them away.
    put_away: BTreeSet<AttemptId>,
    /// Attempts whose folders somebody deleted, and hosts whose folder somebody copied.
    deleted: BTreeSet<AttemptId>,
    copied: BTreeSet<usize>,
    /// Those of them that are kept, should a server ask.
    kept: BTreeSet<AttemptId>,
}

/// An attempt whose start is not on record any more.
struct Unrecorded {
    attempt: AttemptSeen,
    /// The name of its step.
    step: String,
    since: Duration,
    /// Some server was up that had seen the commit.
    remembered: bool,
}

/// The processes of one attempt.
struct Child {
    ticket: Ticket,
    host: usize,
    place: Place,
    line: Line,
    /// It is bound by a lease. What keeps may run beside its successor until it is told.
    leased: bool,
    /// How the step's own program ended.
    program: Option<ProgramEnd>,
    /// All of its processes.
    ended: Option<Duration>,
    /// A second copy that a sleep hid: it must be gone by then.
    gone_by: Option<Duration>,
    /// Its cleanup has begun.
    cleaned: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Asleep,
    WokeAt(Duration),
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Budget {
    executions: u32,
    losses: u32,
}

impl Lives {
    pub(crate) fn new(setup: &Setup) -> Lives {
        let rules = &setup.core.rules;
        Lives {
            children: Vec::new(),
            by_ticket: BTreeMap::new(),
            by_step: BTreeMap::new(),
            budgets: BTreeMap::new(),
            reruns: BTreeSet::new(),
            hosts: BTreeMap::new(),
            window: rules.recovery_window,
            leave_good_for: rules.dispatch_ack,
            max_losses: rules.max_losses,
            no_return: BTreeSet::new(),
            unrecorded: BTreeMap::new(),
            brought_back: Default::default(),
            put_away: BTreeSet::new(),
            deleted: BTreeSet::new(),
            copied: BTreeSet::new(),
            kept: BTreeSet::new(),
        }
    }

    pub(super) fn budget(&self, place: Place) -> Option<Budget> {
        self.budgets.get(&place).copied()
    }

    pub(super) fn put_back(&mut self, budgets: Vec<(Place, Option<Budget>)>) {
        put_back(&mut self.budgets, budgets);
    }

    pub(super) fn is_put_away(&self, attempt: AttemptId) -> bool {
        self.put_away.contains(&attempt)
    }

    /// Its start was committed, and the commit is gone: its worker may have brought it back out of turn.
    pub(super) fn was_unrecorded(&self, attempt: AttemptId) -> bool {
        self.unrecorded.contains_key(&attempt)
    }

    /// Whoever remembered what was lost then is gone.
    pub(super) fn nobody_remembers(&mut self, lost_at: Duration) {
        self.unrecorded.values_mut().filter(|lost| lost.since >= lost_at).for_each(|lost| lost.remembered = false);
    }

    /// The commit of this attempt's start is gone, of the step of this name. `remembered`: some server was up that had seen it.
    pub(super) fn start_is_forgotten(
        &mut self,
        now: Duration,
        id: AttemptId,
        (attempt, step): (&AttemptSeen, &str),
        remembered: bool,
    ) {
        let (attempt, step) = (attempt.clone(), step.to_owned());
        self.unrecorded.insert(id, Unrecorded { attempt, step, since: now, remembered });
    }

    pub(super) fn put_away(&mut self, ticket: Ticket) {
        self.put_away.insert(AttemptId(ticket.attempt));
    }

    pub(super) fn folder_deleted(&mut self, ticket: Ticket) {
        self.deleted.insert(AttemptId(ticket.attempt));
    }

    pub(super) fn folder_copied(&mut self, host: usize) {
        self.copied.insert(host);
    }

    /// Whoever is heard in its worker's name may not have it: its folder was deleted, or there are two of that name.
    pub(super) fn is_out_of_sight(&self, attempt: AttemptId) -> bool {
        let copied = || self.child(attempt).is_some_and(|child| self.copied.contains(&child.host));
        self.deleted.contains(&attempt) || copied()
    }

    pub(super) fn keeps(&mut self, ticket: Ticket, kept: bool) {
        let id = AttemptId(ticket.attempt);
        if kept {
            self.kept.insert(id)
        } else {
            self.kept.remove(&id)
        };
    }

    pub(crate) fn will_not_come_back(&mut self, worker: WorkerId) {
        self.no_return.insert(worker);
    }

    pub(crate) fn rerun_asked(&mut self, place: Place) {
        self.reruns.insert(place);
    }

    /// An attempt that was not known before; `rows` are those before it.
    pub(crate) fn granted(
        &mut self,
        now: Duration,
        row: &AttemptRow,
        brought: bool,
        (rows, plans): (&Rows, &Plans),
        found: &mut Findings,
    ) {
        let place = Place { job: row.job, step: row.ix };
        let Some(plan) = plans.step(rows, place) else { return };
        let name = || format!("attempt {} of step {} of {} was granted", row.number, row.ix.0, row.job);
        if brought {
            // It is adopted, not granted: what it follows, and what runs beside it, was looked at when it was, and when it
            // started. What else was spent and is not on record any more nobody can count; what is on record counts, and
            // so does this one. A loss of what is in doubt after a restore is a person's to judge, and spends nothing.
            // Several of one step that are brought back at once follow on each other, and what was before them is spent once.
            if self.brought_back.0 != now {
                self.brought_back = (now, BTreeSet::new());
            }
            let first = self.brought_back.1.insert(place);
            let counts = |before: &AttemptSeen| before.reason() != Reason::Lost || !is_in_doubt(rows, plans, place);
            let judged = |before: &&AttemptSeen| first && counts(before);
            if let Some(before) = rows.before(place).filter(judged) {
                self.no_reason(place, before, plan);
            }
            self.budgets.entry(place).or_insert(Budget { executions: 1, losses: 0 });
            return;
        }
        // A person who was asked after a restore has the say, and what came of the time before is no execution of the policy.
        let vouched = is_vouched_for(rows, plans, place);
        match rows.before(place) {
            Some(before) if vouched && before.reason() == Reason::Lost => {}
            Some(before) => {
                if let Some(wrong) = self.no_reason(place, before, plan) {
                    found.add(CHECKER, format!("{}: {wrong}", name()));
                }
            }
            None => drop(self.budgets.insert(place, Budget { executions: 1, losses: 0 })),
        }
        let ticket = Ticket { attempt: row.id.0, fence: row.fence.0 };
        // An item has a plan only where it is on record.
        let line = (rows.root(place.job), rows.step(place).map_or(&plan.name, |step| &step.name).clone());
        let wrong = self.second_copy(now, ticket, (place, &line), rows, plan);
        let ran_before = || self.ran_before(now, row.id, (place, &line), rows, plan).filter(|_| !vouched);
        if let Some(wrong) = wrong.or_else(ran_before) {
            found.add(CHECKER, format!("{}, and {wrong}", name()));
        }
    }

    /// A step that must not be repeated has run, and the record of that was lost: its worker knows better, and was to be
    /// asked. What it was told to put away it brings back, if it is still kept.
    fn ran_before(
        &self,
        now: Duration,
        new: AttemptId,
        (place, line): (Place, &Line),
        rows: &Rows,
        plan: &StepPlan,
    ) -> Option<String> {
        let all = self.by_step.get(line).filter(|_| !plan.may_repeat())?;
        // Of several that are not on record the newest is brought back, and stands for those before it.
        let newest = rows.before(place).map_or(0, |before| before.fence.0);
        let children = all.iter().map(|at| &self.children[*at]).filter(|child| child.place.job == place.job);
        let children = children.filter(|child| child.ticket.fence > newest);
        children.map(|child| (child, AttemptId(child.ticket.attempt))).find_map(|(child, id)| {
            let lost = self.unrecorded.get(&id).filter(|_| id != new && !rows.attempts.contains_key(&id))?;
            let dropped = self.put_away.contains(&id) && !self.kept.contains(&id);
            let excused = dropped || self.was_out_of_reach(now, lost) || self.may_be_unknown(now, lost, plan);
            (!excused).then(|| format!("an attempt of it that is not on record has run on host {}", child.host))
        })
    }

    /// After commits were lost nothing starts but what has no effects, before all workers have said what they have or a
    /// window is over; a step that is cut off for so long and stops then is gone. Where no server was up that remembers,
    /// nobody can know before the worker comes.
    fn may_be_unknown(&self, now: Duration, lost: &Unrecorded, plan: &StepPlan) -> bool {
        let waited = !plan.stops() && self.was_out_of_reach(now, lost);
        plan.effects == "none" || !lost.remembered || waited
    }

    /// A window is over since the loss, in which its worker did not come with it.
    fn was_out_of_reach(&self, now: Duration, lost: &Unrecorded) -> bool {
        now.saturating_sub(lost.since).mul_f64(FASTEST_CLOCK) >= self.window
    }

    /// What forbids a successor of this attempt, by policy, effects and budgets.
    fn no_reason(&mut self, place: Place, before: &AttemptSeen, plan: &StepPlan) -> Option<String> {
        if !before.is_over() {
            return Some("the one before it is not over".to_owned());
        }
        let reason = before.reason();
        let ran = self.children.iter().any(|child| child.place == place && self.is_of(child, before, place));
        let most = plan.executions_max();
        let max_losses = self.max_losses;
        let rerun = self.reruns.contains(&place);
        let budget = self.budgets.entry(place).or_default();
        let code = before.settled_as.unwrap_or("success");
        match reason {
            Reason::NeverStarted if ran => Some("the one before it was called never started, and it ran".to_owned()),
            Reason::NeverStarted => None,
            Reason::Person if rerun => None,
            Reason::Person | Reason::Final => Some(format!("the one before it ended for good ({code})")),
            Reason::Lost if !plan.retries(reason) => {
                budget.losses += 1;
                if !plan.may_repeat() {
                    return Some(format!("the one before it was lost ({code}), and its effects forbid a repeat"));
                }
                (budget.losses >= max_losses).then(|| format!("it lost {} workers in a row", budget.losses))
            }
            Reason::Exit(_) | Reason::Timeout | Reason::Lost => {
                if reason != Reason::Lost {
                    budget.losses = 0;
                }
                budget.executions += 1;
                if !plan.retries(reason) {
                    return Some(format!("the one before it failed ({code}), and no policy names that"));
                }
                let over = budget.executions > most;
                over.then(|| format!("it would be execution {} of {most}", budget.executions))
            }
        }
    }

    fn is_of(&self, child: &Child, attempt: &AttemptSeen, place: Place) -> bool {
        child.ticket.fence == attempt.fence.0 && attempt.place == place
    }

    pub(crate) fn started(
        &mut self,
        now: Duration,
        host: usize,
        ticket: Ticket,
        rows: &Rows,
        plans: &Plans,
        found: &mut Findings,
    ) {
        let id = ticket.attempt;
        let recorded = rows.attempts.get(&AttemptId(id));
        let lost = self.unrecorded.get(&AttemptId(id)).filter(|_| recorded.is_none());
        let Some(attempt) = recorded.or(lost.map(|lost| &lost.attempt)).cloned() else {
            return found.add(CHECKER, format!("attempt {id} runs on host {host}, and no start of it is committed"));
        };
        let place = attempt.place;
        let name = || {
            format!("attempt {} of step {} of {} ({id}) runs on host {host}", attempt.number, place.step.0, place.job)
        };
        if attempt.fence.0 != ticket.fence {
            found.add(CHECKER, format!("{} with a fence that it was not granted", name()));
        }
        if self.by_ticket.contains_key(&ticket) {
            found.add(CHECKER, format!("{} for the second time", name()));
        }
        let newest = rows.step(place).and_then(|step| step.attempts.last()) == Some(&AttemptId(id));
        if !newest && lost.is_none() {
            found.add(CHECKER, format!("{}, and its step has a newer one", name()));
        }
        let over_at = attempt.over_at.or(lost.map(|lost| lost.since));
        if let Some(over) = over_at.filter(|at| *at + self.leave_good_for + EXEC < now) {
            found.add(CHECKER, format!("{}, and was given up {:?} before", name(), now - over));
        }
        let name_on_record = || rows.step(place).map(|step| step.name.clone()).unwrap_or_default();
        let line = (rows.root(place.job), lost.map_or_else(name_on_record, |lost| lost.step.clone()));
        let plan = plans.step(rows, place);
        let excused = |plan: &StepPlan| lost.is_some_and(|lost| self.may_be_unknown(now, lost, plan));
        if let Some(plan) = plan
            && !excused(plan)
            && let Some(wrong) = self.second_copy(now, ticket, (place, &line), rows, plan)
        {
            found.add(CHECKER, format!("{}, and {wrong}", name()));
        }
        self.by_ticket.insert(ticket, self.children.len());
        self.by_step.entry(line.clone()).or_default().push(self.children.len());
        let leased = plan.is_some_and(StepPlan::stops);
        self.children.push(Child {
            ticket,
            host,
            place,
            line,
            leased,
            program: None,
            ended: None,
            gone_by: None,
            cleaned: false,
        });
    }

    pub(crate) fn cleanup_started(
        &mut self,
        now: Duration,
        ticket: Ticket,
        unfit: Option<&str>,
        (rows, plans): (&Rows, &Plans),
        found: &mut Findings,
    ) {
        let Some(at) = self.by_ticket.get(&ticket).copied() else {
            return found.add(CHECKER, format!("attempt {} is cleaned up after, and never ran", ticket.attempt));
        };
        let child = &mut self.children[at];
        let name = format!("the cleanup of attempt {} runs on host {}", ticket.attempt, child.host);
        if child.ended.take().is_none() {
            found.add(CHECKER, format!("{name} beside the step itself"));
        }
        if std::mem::replace(&mut child.cleaned, true) {
            found.add(CHECKER, format!("{name} for the second time"));
        }
        if let Some(why) = unfit {
            found.add(CHECKER, format!("{name}, and {why}"));
        }
        let (place, line) = (child.place, child.line.clone());
        let later = self.by_step.get(&line).into_iter().flatten().map(|at| &self.children[*at]);
        let later = later.filter(|other| other.ended.is_none() && other.ticket.fence > ticket.fence);
        if let (Some(later), Some(plan)) = (later.map(|other| other.ticket).max(), plans.step(rows, place))
            && let Some(wrong) = self.second_copy(now, later, (place, &line), rows, plan)
        {
            found.add(CHECKER, format!("{name} beside a later attempt: {wrong}"));
        }
    }

    pub(crate) fn ended(&mut self, now: Duration, ticket: Ticket, found: &mut Findings) {
        let Some(child) = self.by_ticket.get(&ticket).and_then(|at| self.children.get_mut(*at)) else { return };
        child.ended.get_or_insert(now);
        if child.gone_by.is_some_and(|by| by < now) {
            let late = "outlived its lease in its host's sleep, and was not ended at once after it";
            found.add(CHECKER, format!("attempt {} on host {} {late}", ticket.attempt, child.host));
        }
    }

    /// Attempts whose start was not on record at some time.
    pub(crate) fn strangers(&self) -> usize {
        self.unrecorded.len()
    }

    /// Attempts of which something runs, and where.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (AttemptId, usize)> {
        let alive = self.children.iter().filter(|child| child.ended.is_none());
        alive.map(|child| (AttemptId(child.ticket.attempt), child.host))
    }

    /// Steps of which something runs.
    pub(crate) fn alive_places(&self) -> impl Iterator<Item = Place> {
        self.children.iter().filter(|child| child.ended.is_none()).map(|child| child.place)
    }

    pub(crate) fn is_alive(&self, attempt: AttemptId) -> bool {
        self.alive().any(|(id, _)| id == attempt)
    }

    pub(crate) fn program_ended(&mut self, ticket: Ticket, end: ProgramEnd) {
        if let Some(child) = self.by_ticket.get(&ticket).and_then(|at| self.children.get_mut(*at)) {
            child.program.get_or_insert(end);
        }
    }

    /// How the attempt's program ended.
    pub(crate) fn program(&self, attempt: AttemptId) -> Option<ProgramEnd> {
        self.child(attempt)?.program
    }

    /// Since when nothing of this attempt runs; none while something does.
    pub(crate) fn over_since(&self, attempt: AttemptId) -> Option<Duration> {
        self.child(attempt).map_or(Some(Duration::ZERO), |child| child.ended)
    }

    fn child(&self, attempt: AttemptId) -> Option<&Child> {
        let from = Ticket { attempt: attempt.0, fence: 0 };
        let (ticket, at) = self.by_ticket.range(from..).next()?;
        (ticket.attempt == attempt.0).then(|| &self.children[*at])
    }

    pub(crate) fn host_sleeps(&mut self, host: usize) {
        self.hosts.insert(host, Sleep::Asleep);
    }

    pub(crate) fn host_wakes(&mut self, now: Duration, host: usize) {
        if self.hosts.insert(host, Sleep::WokeAt(now)) != Some(Sleep::Asleep) {
            self.hosts.remove(&host);
            return;
        }
        let hidden: Vec<usize> = (0..self.children.len()).filter(|at| self.is_hidden_copy(*at, host)).collect();
        for at in hidden {
            self.children[at].gone_by = Some(now + AFTER_WAKE);
        }
    }

    /// On this host, bound by a lease, alive, and not the newest that lives of its step.
    fn is_hidden_copy(&self, at: usize, host: usize) -> bool {
        let child = &self.children[at];
        let alive = |at: &usize| self.children[*at].ended.is_none();
        child.host == host
            && child.leased
            && child.ended.is_none()
            && self
                .by_step
                .values()
                .any(|all| all.contains(&at) && all.iter().filter(|at| alive(at)).max() != Some(&at))
    }

    /// What is wrong with a new copy of this step at this moment, with regard to those that still live.
    fn second_copy(
        &self,
        now: Duration,
        new: Ticket,
        (place, line): (Place, &Line),
        rows: &Rows,
        plan: &StepPlan,
    ) -> Option<String> {
        let all = self.by_step.get(line)?;
        let alive = all.iter().map(|at| &self.children[*at]).filter(|child| child.ended.is_none());
        let mut others = alive.filter(|child| child.ticket != new);
        others.find_map(|old| {
            let id = AttemptId(old.ticket.attempt);
            let (attempt, allowed) = match (rows.attempts.get(&id), self.unrecorded.get(&id)) {
                (Some(attempt), _) if plan.stops() => (attempt, self.slept(now, old.host)),
                (Some(attempt), _) if plan.may_repeat() => (attempt, self.was_waited_for(now, attempt, place)),
                (Some(attempt), _) => (attempt, false),
                // Of a job that is not on record nobody knows what it continued.
                (None, Some(lost)) => {
                    let stranger = rows.job(old.place.job).is_none();
                    (&lost.attempt, stranger || self.may_be_unknown(now, lost, plan))
                }
                (None, None) => return None,
            };
            let told = format!("attempt {} of it still runs on host {}", attempt.number, old.host);
            (!allowed).then_some(told)
        })
    }

    fn slept(&self, now: Duration, host: usize) -> bool {
        match self.hosts.get(&host) {
            Some(Sleep::Asleep) => true,
            Some(Sleep::WokeAt(at)) => now <= *at + AFTER_WAKE,
            None => false,
        }
    }

    /// A copy beside a stray one is allowed once the window is over; the runner's own silence counts as well.
    fn was_waited_for(&self, now: Duration, old: &AttemptSeen, place: Place) -> bool {
        let cut_long = old.cut_for.is_some_and(|cut| cut.mul_f64(FASTEST_CLOCK) + CLOCK_LEAP >= self.window);
        let over_long = old.place.job != place.job && old.over_at.is_some_and(|at| at + self.window <= now);
        cut_long || over_long || old.settled_as == Some("runner_stale") || self.no_return.contains(&old.worker)
    }
}
