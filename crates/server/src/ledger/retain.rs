//! Retention between two rounds: a small piece at a time, on the one server that has the lease for it, and never while there is
//! more urgent work for long. What may go is decided in [`crate::retention`].

use std::collections::BTreeSet;
use std::time::Duration;

use engine::{JobId, Time};
use pause::Point;
use store::{Lease, Store, StoreError, Tenure};

use crate::retention::{self, Progress, Run};

use super::core::Core;
use super::round::Round;

/// After a piece the ledger is left to itself for at least so long, and for so many times as long as the piece took: a
/// backlog takes a fifth of its time at most.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const REST: u32 = 4;

/// While commands are waiting, pieces are so far apart: a busy server still gets rid of what is old.
const PAUSE_BUSY: Duration = Duration::from_millis(100);

/// A piece that failed, or must not be done now, is tried again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// An operator wants what is old to go now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneOrder {
    /// Jobs and logs that ended so long ago, whatever the rules say.
    pub older_than: Option<Duration>,
}

/// Where retention stands on this server.
pub(super) struct Keeper {
    run: Option<Run>,
    /// The run was asked for, and does not wait for quiet; this server takes the lease for it, whoever has that.
    ordered: bool,
    progress: Progress,
    next_run: Time,
    next_step: Time,
}

impl Keeper {
    pub(super) fn new(now: Time) -> Keeper {
        Keeper { run: None, ordered: false, progress: Progress::default(), next_run: now, next_step: now }
    }

    /// A run that somebody asked for is under way.
    pub(super) fn is_ordered(&self) -> bool {
        self.ordered && self.run.is_some()
    }

    pub(super) fn look_soon(&mut self, now: Time) {
        self.next_run = self.next_run.min(now);
    }
}

impl<S: Store> Core<S> {
    pub(super) fn retention_wake_at(&self) -> Time {
        if self.keeper.run.is_some() {
            return self.keeper.next_step;
        }
        if self.config.retention.keeps_all() { Time::MAX } else { self.keeper.next_run }
    }

    /// Does one piece of what is to go, if it is time for one; to be called between two rounds. `busy`: commands are waiting.
    /// Returns whether it did anything.
    pub fn tidy(&mut self, busy: bool) -> bool {
        let now = self.tick.now;
        self.metrics.set_in_doubt(self.is_unsettled());
        if self.keeper.run.is_none() && now >= self.keeper.next_run && !self.config.retention.keeps_all() {
            self.begin_run(now);
        }
        let since = if busy { self.keeper.next_step + PAUSE_BUSY } else { self.keeper.next_step };
        if since > now || self.keeper.run.is_none() {
            return false;
        }
        if self.is_unsettled() {
            self.keeper.next_step = now + AGAIN_AFTER;
            return false;
        }
        let Some(tenure) = self.tenure(Lease::Retention) else {
            // It was asked for, and is claimed with the next round.
            self.leases.hurry(Lease::Retention);
            self.keeper.next_step = now + AGAIN_AFTER;
            return false;
        };
        let Some(mut run) = self.keeper.run.take() else { return false };
        match self.retain(&mut run, tenure, now) {
            Ok(true) => self.end_run(&run, now),
            Ok(false) => {
                self.keeper.progress.tally = run.tally;
                self.keeper.next_step = now + PAUSE_MIN;
                self.keeper.run = Some(run);
            }
            Err(error) => {
                tracing::warn!(%error, "something old could not be deleted; it is tried again");
                self.metrics.retention_failures.inc();
                self.keeper.next_step = now + AGAIN_AFTER;
                // Only where the database is away does the same step make sense again.
                if matches!(error, StoreError::Unavailable { .. }) {
                    self.keeper.run = Some(run);
                } else {
                    self.end_run(&run, now);
                }
                if matches!(error, StoreError::Moved { .. }) {
                    self.relieved(tenure);
                }
            }
        }
        self.metrics.retained(self.keeper.progress);
        true
    }

    /// How far retention has got on this server.
    pub fn retention(&self) -> Progress {
        self.keeper.progress
    }

    /// How long the last piece took.
    pub fn tidied(&mut self, took: Duration) {
        self.keeper.next_step = self.keeper.next_step.max(self.tick.now + took * REST);
    }

    /// What is old goes now, whatever the time. Returns where that stands.
    pub(super) fn prune(&mut self, order: PruneOrder) -> Progress {
        let now = self.tick.now;
        let by_rules = self.config.retention.cutoffs(now, self.hearing.clocks(now).heard);
        let cutoffs = order.older_than.map_or(by_rules, |age| by_rules.older_than(now - age));
        self.keeper.run = Some(Run::new(cutoffs));
        self.keeper.ordered = true;
        self.keeper.next_step = now;
        self.leases.hurry(Lease::Retention);
        // Every run has a time of its own, by which whoever asked for it finds it again.
        let before = self.keeper.progress.started_at;
        let started_at = before.map_or(now, |before| now.max(before + Duration::from_micros(1)));
        self.keeper.progress = Progress { started_at: Some(started_at), ..Progress::default() };
        self.metrics.retained(self.keeper.progress);
        self.keeper.progress
    }

    fn begin_run(&mut self, now: Time) {
        let clocks = self.hearing.clocks(now);
        let listened = clocks.heard.since(self.hearing.row.stretch_from);
        let rules = &self.config.retention;
        if listened < rules.settle {
            self.keeper.next_run = now + (rules.settle - listened);
        } else if self.tenure(Lease::Retention).is_none() {
            self.keeper.next_run = now + rules.every;
        } else {
            self.keeper.run = Some(Run::new(rules.cutoffs(now, clocks.heard)));
            self.keeper.ordered = false;
            self.keeper.progress = Progress { started_at: Some(now), ..Progress::default() };
        }
    }

    /// Nothing goes while memory may be ahead of the rows, nor while commits are known to be lost: what is left is needed to
    /// find out what happened.
    fn is_unsettled(&self) -> bool {
        self.prepared.is_some()
            || !self.split.is_empty()
            || self.must_rebuild
            || self.waiting.is_some()
            || self.forgotten.is_some()
            || self.amnesia.is_some()
    }

    /// One step of the run; whether it was the last.
    fn retain(&mut self, run: &mut Run, tenure: Tenure, now: Time) -> Result<bool, StoreError> {
        // What a worker here was spoken to about may be spoken of by it.
        let words = self.links.values().flat_map(|link| link.words.values());
        let in_hand: BTreeSet<JobId> = words.map(|word| word.place.job).collect();
        pause::at(Point::Deleting);
        let step = run.step(&mut self.store, now, Some(tenure), &|job| in_hand.contains(&job))?;
        for job in &step.jobs {
            self.cache.drop_job(*job);
        }
        for worker in &step.workers {
            self.roster.update(*worker, |slot| *slot = None);
        }
        Ok(step.done)
    }

    /// Somebody else does it from here on, and finds what is left.
    pub(super) fn drop_run(&mut self) {
        if let Some(run) = self.keeper.run.take() {
            self.end_run(&run, self.tick.now);
        }
    }

    fn end_run(&mut self, run: &Run, now: Time) {
        let tally = run.tally;
        self.keeper.progress.tally = tally;
        self.keeper.progress.ended_at = Some(now);
        self.keeper.next_run = now + self.config.retention.every;
        if tally.jobs + tally.logs + tally.workers + tally.words + tally.quarantined > 0 || self.keeper.ordered {
            tracing::info!(
                jobs = tally.jobs,
                attempts = tally.attempts,
                log_lines = tally.log_lines,
                log_bytes = tally.log_bytes,
                workers = tally.workers,
                without_job = tally.words + tally.quarantined,
                kept_in_doubt = tally.kept.in_doubt,
                "what was old is deleted"
            );
        }
    }

    /// What another server deletes goes with its events, so nobody hears of it: whatever is remembered here from before the
    /// mark is read again with each sign of life. There is little of it, since what is old and in memory is still open.
    pub(super) fn doubt_the_old(&mut self, round: &Round) {
        if round.listened.is_none() || !self.siblings.is_shared() {
            return;
        }
        let Ok(Some(before)) = retention::mark(&*self.store.reader()) else { return };
        let held = self.roster.iter().flat_map(|(_, worker)| worker.held.values().map(|place| place.job));
        let old = self.cache.ids().chain(held).filter(|job| job.is_from_before(before)).collect();
        self.noticed.read_again(old);
    }

    /// Whether a job that is not on record was deleted. If that cannot be read, it may as well be lost.
    pub(super) fn was_deleted(&self, job: JobId) -> bool {
        retention::was_deleted(&*self.store.reader(), job).unwrap_or(false)
    }
}
