//! What the checkers knew before each of the last batches, so that they can forget with the database: after commits are
//! lost, the rows that are left are the ones that count.
//!
//! What follows for each promise: rows, check times, fences, budgets, offers, cuts, finals and used links are what they were. How long a step
//! had been in its state is not known any more, until it is written again; and the time that is not on record counts as one
//! in which nobody listened. What ran in truth did run: an attempt whose start
//! is not on record any more is [remembered](super::lives), and so is a log of which lines are gone.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use engine::{AttemptId, Epoch, Fence, JobId, Time, WorkerId};
use store::rows::TriggerRow;
use store::{Batch, Lease, LeaseRow};
use uuid::Uuid;

use super::Accepted;
use super::lives::Budget;
use super::rows::{AttemptSeen, JobSeen, Place};
use super::silence::Cut;
use super::supply::Offers;
use super::times::Row;

/// More than any fault forgets.
const BATCHES_MAX: usize = 2_000;

#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Some commits of this world will be lost; otherwise nothing is worth remembering.
    pub expected: bool,
    /// Some were.
    pub has_lost: bool,
    batches: VecDeque<Before>,
}

/// What a batch was about to change.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// What had been listened to.
    pub listened: Duration,
    /// The latest time of a commit.
    pub latest: Time,
    pub jobs: Vec<(JobId, Option<JobSeen>)>,
    pub attempts: Vec<(AttemptId, Option<AttemptSeen>)>,
    pub times: Vec<(Row, Option<Time>)>,
    pub fences: Vec<(Place, Option<Fence>)>,
    pub budgets: Vec<(Place, Option<Budget>)>,
    pub cuts: Vec<(Place, Option<Cut>)>,
    pub offers: Vec<(Place, Option<Offers>)>,
    /// Workers that somebody let drain, or take work again.
    pub drained: Vec<(WorkerId, bool)>,
    pub used_epochs: Vec<(WorkerId, Epoch)>,
    pub triggers: Vec<(String, Option<TriggerRow>)>,
    pub leases: Vec<(Lease, Option<LeaseRow>)>,
    /// What it brought.
    pub granted: Vec<Fence>,
    pub ended: Vec<JobId>,
    pub deliveries: Vec<Uuid>,
    pub logs: Vec<AttemptId>,
}

impl Past {
    pub(crate) fn add(&mut self, before: Before) {
        if self.batches.len() == BATCHES_MAX {
            self.batches.pop_front();
        }
        self.batches.push_back(before);
    }

    /// The last of them.
    pub(crate) fn pop(&mut self) -> Option<Before> {
        self.batches.pop_back()
    }
}

/// The jobs and the steps that a batch writes.
pub(crate) fn touched(accepted: &Accepted<'_>) -> (BTreeSet<JobId>, BTreeSet<Place>) {
    let steps = accepted.steps().map(|row| Place { job: row.job, step: row.ix });
    let attempts = accepted.attempts().map(|row| Place { job: row.job, step: row.ix });
    let places: BTreeSet<Place> = steps.chain(attempts).collect();
    let jobs = accepted.jobs().map(|row| row.id).chain(places.iter().map(|place| place.job)).collect();
    (jobs, places)
}

/// Jobs whose end a batch tells, and what is to be delivered of them.
pub(crate) fn brought(batch: &Batch, accepted: &Accepted<'_>) -> (Vec<JobId>, Vec<Uuid>) {
    let is_end = |to: Option<&str>| matches!(to, Some("success" | "failed" | "cancelled"));
    let told = batch.events.iter().filter(|event| event.kind == "job" && accepted.job(event.job) && is_end(event.to));
    let outbox = batch.outbox.iter().filter(|row| accepted.job(row.job));
    (told.map(|event| event.job).collect(), outbox.map(|row| row.id).collect())
}
