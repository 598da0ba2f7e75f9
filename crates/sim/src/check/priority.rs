//! Promise: priority goes first. When a step is offered to a worker, no other one waits that asks for exactly the same of a worker, is of a
//! job with a higher priority, and could have been offered by the same server.
//!
//! That last word is what has to be stated: a server knows of a step that another one put into the queue when it has looked, one that
//! was offered in vain may not be offered for some seconds, and one that could not be read or written is left alone for a minute. So only
//! what has stood in the queue unchanged for long counts, with a server that has committed something shortly before; and only in worlds
//! whose database neither fails nor loses commits, after which steps are withheld.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::AttemptId;
use store::rows::StepRow;

use super::plans::Plans;
use super::rows::{Place, Rows};
use super::{Accepted, Findings};
use crate::faults::Fault;
use crate::workload::StepPlan;

const CHECKER: &str = "priority";

/// Longer than the longest pause after an offer in vain, than a commit takes, and than it takes a server to see what others did.
const IN_LINE: Duration = Duration::from_secs(30);

/// Marks come every two seconds: a server that is awake commits something.
const AWAKE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Priority {
    /// Whether nothing is done to the database that keeps a server from an offer.
    applies: bool,
    /// Since when steps have stood in the queue, without an offer.
    waiting: BTreeMap<Place, Duration>,
    /// What is offered. An offer that is only written once more is no choice.
    offers: BTreeMap<Place, AttemptId>,
    /// When each server last committed something.
    awake: BTreeMap<usize, Duration>,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { applies: true, waiting: BTreeMap::new(), offers: BTreeMap::new(), awake: BTreeMap::new() }
    }
}

impl Priority {
    pub(super) fn expect(&mut self, faults: &[Fault]) {
        self.applies = faults.iter().all(|fault| !fault.kind.is_about_the_database());
    }

    /// Whether nothing is done to the database in this world.
    pub(super) fn is_calm(&self) -> bool {
        self.applies
    }

    /// `rows` are those after the batch.
    pub(super) fn committed(
        &mut self,
        (now, server): (Duration, usize),
        (rows, plans): (&Rows, &Plans),
        accepted: &Accepted<'_>,
        found: &mut Findings,
    ) {
        if !self.applies {
            return;
        }
        let was_awake = self.awake.insert(server, now).is_some_and(|at| now < at + AWAKE);
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            match row.state == "queued" && row.attempt.is_none() {
                true => drop(self.waiting.insert(place, now)),
                false => drop(self.waiting.remove(&place)),
            }
        }
        for row in accepted.steps() {
            let place = Place { job: row.job, step: row.ix };
            let offer = row.attempt.filter(|_| row.state == "queued");
            let before = match offer {
                Some(offer) => self.offers.insert(place, offer),
                None => self.offers.remove(&place),
            };
            if was_awake && offer.is_some() && offer != before {
                self.offered(now, row, (rows, plans), accepted, found);
            }
        }
    }

    fn offered(
        &self,
        now: Duration,
        row: &StepRow,
        (rows, plans): (&Rows, &Plans),
        accepted: &Accepted<'_>,
        found: &mut Findings,
    ) {
        let offered = Place { job: row.job, step: row.ix };
        let Some((priority, wants)) = wanted(offered, rows, plans) else { return };
        let passed_over = |(place, since): &(&Place, &Duration)| {
            // One whose job somebody else was faster with may have been offered in this very batch, and was left out of it.
            let stands = now > **since + IN_LINE && accepted.job(place.job);
            let waits = stands && rows.step(**place).is_some_and(|step| step.state == "queued");
            waits && wanted(**place, rows, plans).is_some_and(|(theirs, same)| theirs > priority && same == wants)
        };
        if let Some((place, since)) = self.waiting.iter().find(passed_over) {
            let (job, ix) = (place.job, place.step.0);
            let what =
                format!("step {} of {} is offered, and step {ix} of {job} waits since {since:?}", row.ix.0, row.job);
            found.add(CHECKER, what);
        }
    }
}

/// What a step asks for of a worker.
type Wanted<'a> = (Option<&'a str>, Vec<&'static str>);

/// The priority of a step, and what it asks for of a worker.
fn wanted<'a>(place: Place, rows: &Rows, plans: &'a Plans) -> Option<(i32, Wanted<'a>)> {
    let step: &StepPlan = plans.step(rows, place)?;
    Some((plans.job(rows, place.job)?.priority, (step.tag, step.features())))
}
