//! Promise: a job, or an attempt of a step, that takes longer than expected is noticed, soon after that and once; whoever is in
//! time is not. And what a task lets follow on a notice follows on each.
//!
//! How long something has taken is known here by itself, from the times of commits: a step since its row said that it runs, a
//! job since it was made or its group had room for it, less the time in which only a person could move it on. Where commits are lost nobody knows that any
//! more, and nothing is judged.
//!
//! A step that has waited for a worker for longer than the server's limit is noticed once, and never before that. Items of a
//! fan-out are not told of by themselves, whether they wait or are late: the first of them is, as their step's, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{AttemptId, JobId, NoticeKind, StepIx, Time};
use store::Batch;
use store::rows::{JobRow, StepRow};

use super::ears::Ears;
use super::plans::Plans;
use super::post::Post;
use super::rows::{Place, Rows, StepSeen};
use super::{Accepted, Findings};
use crate::setup::Setup;
use crate::workload::{HookWork, On};

const CHECKER: &str = "notice";

/// The words of a server's configuration have numbers from here on; those of a task are below.
const OF_SERVER: usize = 512;

/// Of listening: what is left to another server first, a look that failed, a start.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// One that could not be written is left alone for so long.
const ASIDE_MAX: Duration = Duration::from_secs(125);

/// How the notice of a wait in the queue begins.
const WAITED: &str = "has waited for a worker";

/// The same of a fan-out; it ends with the item's name.
const ITEM_WAITED: &str = "has items that have waited for a worker";

/// How the notice of an item that takes too long begins; it ends with the item's name.
const ITEM_LATE: &str = "has items that take longer than expected";

/// A job, or one of its steps.
type About = (JobId, Option<StepIx>);

#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// How many words the servers' own configuration lets follow on each.
    of_server: usize,
    given: BTreeSet<About>,
    /// How long a step may wait for a worker, and those that were said to have waited for longer.
    queue: Option<Duration>,
    queue_old: BTreeSet<About>,
    /// What is under way, and of which something is expected.
    under_way: BTreeMap<About, Stay>,
    /// Since how much listening each should have been noticed.
    overdue: BTreeMap<About, Duration>,
    /// Until how much listening jobs may be late for a batch that was refused.
    refused: BTreeMap<JobId, Duration>,
    /// What is on record is not what was.
    forgot: bool,
}

#[derive(Debug, Clone, Copy)]
struct Stay {
    /// What it is an item of.
    fan: Option<StepIx>,
    attempt: Option<AttemptId>,
    since: Time,
    expect: Duration,
    /// Since when only a person can move it on.
    held_from: Option<Time>,
    held: Duration,
    /// Its worker is cut off: it is noticed when that is back.
    away: bool,
}

impl Stay {
    fn took(&self, now: Time) -> Duration {
        let held = self.held + self.held_from.map(|from| now.since(from)).unwrap_or_default();
        now.since(self.since).saturating_sub(held)
    }
}

impl Notices {
    pub(crate) fn new(setup: &Setup) -> Notices {
        let (queue, of_server) = (setup.core.rules.queue_notice, setup.core.notices.len());
        Notices { queue, of_server, ..Notices::default() }
    }

    pub(super) fn forgot(&mut self) {
        self.forgot = true;
    }

    pub(super) fn refused(&mut self, ears: &Ears, batch: &Batch) {
        for write in &batch.jobs {
            self.refused.insert(write.row.id, ears.listened() + ASIDE_MAX);
        }
    }

    /// `rows` are those after the batch.
    pub(super) fn committed(
        &mut self,
        ears: &Ears,
        (rows, plans): (&Rows, &Plans),
        (batch, accepted): (&Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        if self.forgot {
            return;
        }
        for event in batch.events.iter().filter(|event| event.kind == "notice" && accepted.job(event.job)) {
            let about = (event.job, event.ix);
            let of_job = || accepted.steps().filter(|row| row.job == event.job);
            if event.reason.starts_with(WAITED) {
                let row = of_job().filter(|row| Some(row.ix) == event.ix).last();
                if row.is_some_and(|row| row.name.ends_with(']')) {
                    found.add(CHECKER, format!("{about:?} is an item, and is said to have waited by itself"));
                }
                self.waited(about, row.and_then(|row| row.queued_at), batch.now, found);
            } else if event.reason.starts_with(ITEM_WAITED) {
                let row = of_job().filter(|row| event.reason.ends_with(&format!(": {}", row.name))).last();
                if row.is_none() {
                    found.add(CHECKER, format!("{about:?} is said to have an item that waited, and none did"));
                }
                self.waited(about, row.and_then(|row| row.queued_at), batch.now, found);
            } else if event.reason.starts_with(ITEM_LATE) {
                let row = of_job().filter(|row| event.reason.ends_with(&format!(": {}", row.name))).last();
                if row.is_none() {
                    found.add(CHECKER, format!("{about:?} is said to have an item that is late, and none is"));
                }
                self.noticed(about, (event.job, row.map(|row| row.ix)), batch.now, found);
                self.under_way.retain(|(job, _), stay| (*job, stay.fan) != about || stay.fan.is_none());
                self.overdue.retain(|about, _| self.under_way.contains_key(about));
            } else {
                let row = of_job().filter(|row| event.ix == Some(row.ix)).last();
                if row.is_some_and(|row| row.name.ends_with(']')) {
                    found.add(CHECKER, format!("{about:?} is an item, and is noticed by itself"));
                }
                self.noticed(about, about, batch.now, found);
            }
        }
        accepted.jobs().for_each(|row| self.take_job(row, (rows, plans), batch.now));
        accepted.steps().for_each(|row| self.take_step(row, (rows, plans), batch.now));
        self.look_for_the_late(ears, batch.now, found);
    }

    /// `late` is what takes too long: `about` itself, or an item of it.
    fn noticed(&mut self, about: About, late: About, now: Time, found: &mut Findings) {
        if !self.given.insert(about) {
            found.add(CHECKER, format!("{about:?} is noticed once more"));
        }
        match self.under_way.remove(&late) {
            Some(stay) if stay.took(now) >= stay.expect => {}
            Some(stay) => {
                let (took, expect) = (stay.took(now), stay.expect);
                found.add(CHECKER, format!("{about:?} is noticed after {took:?}, and {expect:?} were expected"));
            }
            None => found.add(CHECKER, format!("{about:?} is noticed, and nothing was expected of it")),
        }
        self.overdue.remove(&late);
    }

    /// Time in which nobody could hear does not count, so that it may be later than the rows say, and never sooner.
    fn waited(&mut self, about: About, since: Option<Time>, now: Time, found: &mut Findings) {
        if !self.queue_old.insert(about) {
            found.add(CHECKER, format!("{about:?} is said to have waited once more"));
        }
        match self.queue {
            None => found.add(CHECKER, format!("{about:?} is said to have waited, and nobody wants to know")),
            Some(limit) if since.is_some_and(|since| now.since(since) < limit) => {
                found.add(CHECKER, format!("{about:?} is said to have waited for {limit:?}, since {since:?}"));
            }
            Some(_) => {}
        }
    }

    fn take_job(&mut self, row: &JobRow, (rows, plans): (&Rows, &Plans), now: Time) {
        let about = (row.id, None);
        let Some(expect) = plans.job(rows, row.id).and_then(|plan| plan.expect) else { return };
        if row.check_at.is_none() || row.state == "cancelling" || self.given.contains(&about) {
            return self.let_go(about);
        }
        // While it waits for its group the clock stands still.
        if row.group.is_some() && row.admitted_at.is_none() {
            return;
        }
        let (since, held) = (row.admitted_at.unwrap_or(row.created_at), Duration::ZERO);
        let new = Stay { fan: None, attempt: None, since, expect, held_from: None, held, away: false };
        let stay = self.under_way.entry(about).or_insert(new);
        match (row.state == "held", stay.held_from) {
            (true, None) => stay.held_from = Some(now),
            (false, Some(from)) => {
                stay.held += now.since(from);
                stay.held_from = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
        if stay.held_from.is_some() {
            self.overdue.remove(&about);
        }
    }

    fn take_step(&mut self, row: &StepRow, (rows, plans): (&Rows, &Plans), now: Time) {
        let about = (row.job, Some(row.ix));
        let place = Place { job: row.job, step: row.ix };
        let Some(plan) = plans.step(rows, place) else { return };
        let fan_name = rows.step(place).and_then(|step| step.item_of());
        let is_named = |(ix, step): (&StepIx, &StepSeen)| (fan_name == Some(step.name.as_str())).then_some(*ix);
        let siblings = rows.job(row.job).filter(|_| plan.expect.is_some() && fan_name.is_some());
        let fan = siblings.and_then(|job| job.steps.iter().find_map(is_named));
        // One that became many runs as they do, and each of them is expected by itself, until the first is late.
        let expect = plan.expect.filter(|_| plan.fan.is_none() || fan_name.is_some());
        let is_told = self.given.contains(&about) || fan.is_some_and(|fan| self.given.contains(&(row.job, Some(fan))));
        // While it is held after a restore it is the same attempt, which its worker may bring back.
        let kept = row.state == "held" && self.under_way.get(&about).is_some_and(|stay| stay.attempt == row.attempt);
        let under_way = (matches!(row.state, "running" | "recovering") || kept) && !is_told;
        let Some(expect) = expect.filter(|_| under_way) else { return self.let_go(about) };
        let attempt = row.attempt;
        let new = Stay { fan, attempt, since: now, expect, held_from: None, held: Duration::ZERO, away: false };
        let stay = self.under_way.entry(about).or_insert(new);
        if stay.attempt != attempt {
            *stay = new;
            self.overdue.remove(&about);
        }
        stay.away = row.state != "running";
        if stay.away {
            self.overdue.remove(&about);
        }
    }

    fn let_go(&mut self, about: About) {
        self.under_way.remove(&about);
        self.overdue.remove(&about);
    }

    fn look_for_the_late(&mut self, ears: &Ears, now: Time, found: &mut Findings) {
        let listened = ears.listened();
        for (about, stay) in &self.under_way {
            if stay.away || stay.held_from.is_some() || stay.took(now) <= stay.expect {
                continue;
            }
            let since = *self.overdue.entry(*about).or_insert(listened);
            let until = (since + SEEN_WITHIN).max(self.refused.get(&about.0).copied().unwrap_or_default());
            if listened > until {
                let (took, expect) = (stay.took(now), stay.expect);
                found.add(CHECKER, format!("{about:?} takes {took:?} and not {expect:?}, and nobody notices"));
                return;
            }
        }
    }

    /// How many words the servers' own configuration lets follow on each.
    pub(super) fn of_server(&self) -> usize {
        self.of_server
    }

    /// How many notices were given of a job and its steps; none where the record of some is lost.
    pub(super) fn count(&self, job: JobId) -> Option<usize> {
        let of_job = |about: &&About| about.0 == job;
        let count = self.given.iter().filter(of_job).count() + self.queue_old.iter().filter(of_job).count();
        (!self.forgot).then_some(count)
    }

    /// What the tasks let follow did follow.
    pub(super) fn at_the_end(&self, (rows, plans): (&Rows, &Plans), post: &Post, found: &mut Findings) {
        let late = |ix: Option<StepIx>| if ix.is_some() { NoticeKind::StepLate } else { NoticeKind::JobLate };
        let late = self.given.iter().map(|about| (about, late(about.1)));
        let all = late.chain(self.queue_old.iter().map(|about| (about, NoticeKind::QueueOld)));
        for ((job, ix), kind) in all.filter(|_| !self.forgot) {
            for number in 0..self.of_server {
                if !post.has(job.notice(kind, *ix, OF_SERVER + number).0) {
                    found.add(
                        CHECKER,
                        format!("of {job}, {ix:?}: word {number} of the server did not follow on its notice"),
                    );
                }
            }
            let (Some(plan), Some(seen)) = (plans.job(rows, *job), rows.job(*job)) else { continue };
            for (number, hook) in plan.hooks.iter().enumerate().filter(|(_, hook)| hook.on == On::Notice) {
                let id = job.notice(kind, *ix, number);
                let there = match &hook.work {
                    HookWork::Word | HookWork::Mail => post.has(id.0),
                    HookWork::Job(_) => rows.job(id).is_some(),
                };
                if there != seen.hook_of.is_none() {
                    found.add(CHECKER, format!("of {job}, {ix:?}: hook {number} follows on its notice: {there}"));
                }
            }
        }
    }
}
