//! Promise: no step fails for want of a worker while there is one. An offer counts as unanswered only after the time for its
//! answer, so that a refusal costs nothing; and a worker that fits and is only cut off is waited for. No step goes to a
//! worker that is too old for what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{AttemptId, WorkerId};
use protocol::attempt::Ticket;
use store::Batch;
use store::rows::{FleetChange, StepRow};

use super::ears::Ears;
use super::plans::Plans;
use super::rows::{Place, Rows, put_back};
use super::{Accepted, FASTEST_CLOCK, Findings};
use crate::setup::Setup;
use crate::workload::StepPlan;

const CHECKER: &str = "supply";

/// An offer's time begins with the round that makes it, and is told by a commit.
const COMMIT: Duration = Duration::from_secs(2);

/// What one server knows of a worker its siblings know after so long.
const SPREADS: Duration = Duration::from_secs(30);

pub(crate) struct Supply {
    answer: Duration,
    window: Duration,
    offers_max: u32,
    offers: BTreeMap<Place, Offers>,
    workers: BTreeMap<WorkerId, Willing>,
    /// Somebody may say so of one that was never here.
    drained: BTreeSet<WorkerId>,
}

/// What became of a step's offers since it last ran.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offers {
    open: Option<(AttemptId, Duration)>,
    unanswered: u32,
}

#[derive(Debug)]
struct Willing {
    tags: Vec<String>,
    features: Vec<String>,
    returns: bool,
    drained: bool,
    unwilling: bool,
    removed: bool,
    /// When any of it last changed.
    since: Duration,
}

/// A step's process starts on a host whose worker cannot do what it needs.
pub(crate) fn started_unable(host: usize, ticket: Ticket, lacks: &str, found: &mut Findings) {
    found.add(CHECKER, format!("attempt {} runs on host {host}, which knows nothing of {lacks}", ticket.attempt));
}

impl Supply {
    pub(crate) fn new(setup: &Setup) -> Supply {
        let rules = &setup.core.rules;
        Supply {
            answer: rules.dispatch_ack,
            window: rules.recovery_window,
            offers_max: rules.max_dispatch_attempts,
            offers: BTreeMap::new(),
            workers: BTreeMap::new(),
            drained: BTreeSet::new(),
        }
    }

    pub(crate) fn offers(&self, place: Place) -> Option<Offers> {
        self.offers.get(&place).cloned()
    }

    /// Whether the workers of which this batch speaks were drained before it.
    pub(crate) fn drained_by(&self, batch: &Batch) -> Vec<(WorkerId, bool)> {
        let ordered = batch.fleet.iter().filter_map(|fleet| match fleet {
            FleetChange::Drain { worker, .. } => Some(*worker),
            FleetChange::Remove { .. } => None,
        });
        ordered.map(|worker| (worker, self.drained.contains(&worker))).collect()
    }

    /// What became of them is not on record any more.
    pub(crate) fn put_back(
        &mut self,
        offers: Vec<(Place, Option<Offers>)>,
        drained: &[(WorkerId, bool)],
        now: Duration,
    ) {
        put_back(&mut self.offers, offers);
        drained.iter().for_each(|(worker, was)| self.drain(now, *worker, *was));
    }

    fn drain(&mut self, now: Duration, id: WorkerId, on: bool) {
        if on {
            self.drained.insert(id);
        } else {
            self.drained.remove(&id);
        }
        self.change(now, id, |worker| worker.drained = on);
    }

    /// `rows` are those before the batch.
    pub(crate) fn committed(
        &mut self,
        now: Duration,
        ears: &Ears,
        (rows, plans): (&Rows, &Plans),
        (batch, accepted): (&Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            let unanswered = self.offered(now, place, row);
            let name = || format!("step {} of {}", row.name, row.job);
            // What a job takes over from the one that it continues is over with its first row, and no new verdict.
            let taken_over = rows.step(place).is_none();
            // A step that became many has the code of one of those, which was judged by itself; and so was a job that
            // does it.
            let by_others = plans
                .step(rows, place)
                .is_some_and(|plan| plan.child.is_some() || (plan.fan.is_some() && plan.name == row.name));
            let judged_now = row.check_at.is_none() && !taken_over && !by_others;
            match row.error_code.filter(|_| judged_now) {
                Some("dispatch_exhausted") if unanswered < self.offers_max => {
                    let offers = format!("{unanswered} of {} were left unanswered", self.offers_max);
                    found.add(CHECKER, format!("{} was given up for its offers, and {offers}", name()));
                }
                Some("unmatched") => {
                    if let Some(worker) = self.one_that_fits(now, ears, plans.step(rows, place)) {
                        let here = format!("and worker {worker} fits and is here, or was not long ago");
                        found.add(CHECKER, format!("{} failed for want of a worker, {here}", name()));
                    }
                }
                _ => {}
            }
        }
        self.heard_of_workers(now, batch);
    }

    /// Follows the step's offers; how many of them nobody answered.
    fn offered(&mut self, now: Duration, place: Place, row: &StepRow) -> u32 {
        let offers = self.offers.entry(place).or_default();
        let open = row.attempt.filter(|_| row.state == "queued");
        if let Some((_, since)) = offers.open.filter(|(before, _)| Some(*before) != open) {
            let stood = (now - since).mul_f64(FASTEST_CLOCK) + COMMIT;
            offers.unanswered += u32::from(stood >= self.answer);
            offers.open = None;
        }
        if let (Some(attempt), None) = (open, offers.open) {
            offers.open = Some((attempt, now));
        }
        if row.state == "running" {
            offers.unanswered = 0;
        }
        offers.unanswered
    }

    /// One that has the tag, can do what the step needs, takes work, and was heard within its window.
    fn one_that_fits(&self, now: Duration, ears: &Ears, plan: Option<&StepPlan>) -> Option<WorkerId> {
        let heard = |id: &WorkerId| (now - ears.worker(*id).seen).mul_f64(FASTEST_CLOCK) < self.window;
        self.who_fits(now, SPREADS, plan?).find(heard)
    }

    /// Those that have the tag, can do what the step needs, and have been taking work for so long.
    pub(super) fn who_fits(&self, now: Duration, long: Duration, plan: &StepPlan) -> impl Iterator<Item = WorkerId> {
        let needs = plan.features();
        let fits = move |worker: &Willing| {
            let tagged = plan.tag.is_none_or(|tag| worker.tags.iter().any(|has| has == tag));
            tagged && needs.iter().all(|need| worker.features.iter().any(|has| has == need))
        };
        let takes_work = move |worker: &Willing| {
            worker.returns && !worker.drained && !worker.unwilling && !worker.removed && worker.since + long < now
        };
        let all = self.workers.iter().filter(move |(_, worker)| fits(worker) && takes_work(worker));
        all.map(|(id, _)| *id)
    }

    fn heard_of_workers(&mut self, now: Duration, batch: &Batch) {
        for hello in &batch.hellos {
            let before = self.workers.get(&hello.id);
            let worker = Willing {
                tags: hello.tags.clone(),
                features: hello.features.clone(),
                returns: !hello.no_reconnect && hello.kind != "ephemeral",
                drained: self.drained.contains(&hello.id),
                unwilling: hello.unwilling,
                removed: before.is_some_and(|worker| worker.removed),
                since: now,
            };
            self.workers.insert(hello.id, worker);
        }
        for (id, _, unwilling) in &batch.unwilling {
            self.change(now, *id, |worker| worker.unwilling = *unwilling);
        }
        for fleet in &batch.fleet {
            match fleet {
                FleetChange::Drain { worker, on } => self.drain(now, *worker, *on),
                FleetChange::Remove { worker, .. } => self.change(now, *worker, |worker| worker.removed = true),
            }
        }
    }

    fn change(&mut self, now: Duration, id: WorkerId, what: impl FnOnce(&mut Willing)) {
        if let Some(worker) = self.workers.get_mut(&id) {
            what(worker);
            worker.since = now;
        }
    }
}
