//! One run: everything that may go, piece by piece.

use std::collections::VecDeque;

use engine::{AttemptId, Heard, JobId, Time, WorkerId};
use planted::Bug;
use store::rows::WorkerRow;
use store::{OldJob, OldLog, Piece, Reader, Store, StoreError, Tenure};

use super::{Cutoffs, Tally, Unseen, above, add, below, plan, raise_mark};

/// Jobs that are looked at in one step. Each may have ten thousand attempts, whose logs are asked for.
pub(super) const LOOK_JOBS: usize = 20;

/// Logs that are looked at in one step.
pub(super) const LOOK_LOGS: usize = 50;

/// Jobs that are taken off the record in one transaction.
const DOOMED_PER_STEP: usize = 50;

/// Rows and bytes of log that one transaction takes away: a few milliseconds' worth.
const PIECE: Piece = Piece { rows: 500, log_bytes: 4 * 1024 * 1024 };

/// Definitions that are looked at in one step.
const LOOK_DEFINITIONS: usize = 200;

/// Rows without a job that are deleted in one step, of each kind.
const STRAYS_PER_STEP: usize = 200;

/// Workers that are deleted in one step.
const WORKERS_PER_STEP: usize = 50;

/// A run under way. Nothing is lost with it: what is left is found again by the next one.
#[derive(Debug)]
pub struct Run {
    cutoffs: Cutoffs,
    phase: Phase,
    /// The family that is being looked at, as far as it was.
    family: Vec<OldJob>,
    /// Jobs that may go, with the versions for which that was decided.
    condemned: VecDeque<(JobId, u64)>,
    /// Something is left of jobs that are off the record.
    clearing: bool,
    pub tally: Tally,
}

#[derive(Debug)]
enum Phase {
    Jobs(Option<JobId>),
    Logs(Option<AttemptId>),
    Definitions(Option<[u8; 32]>),
    Strays,
    Workers(Option<Vec<WorkerId>>),
    Done,
}

/// What one step came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub done: bool,
    /// Jobs that are off the record now.
    pub jobs: Vec<JobId>,
    /// Workers that are.
    pub workers: Vec<WorkerId>,
}

impl Run {
    pub fn new(cutoffs: Cutoffs) -> Run {
        let (family, condemned) = (Vec::new(), VecDeque::new());
        // What an earlier run left behind comes first.
        Run { cutoffs, phase: Phase::Jobs(None), family, condemned, clearing: true, tally: Tally::default() }
    }

    /// One look and one transaction at most. `under`: the lease by which it is done; it is [`StoreError::Moved`] when that is
    /// somebody else's. `in_hand`: whether a connected worker has something of a job.
    pub fn step(
        &mut self,
        store: &mut dyn Store,
        now: Time,
        under: Option<Tenure>,
        in_hand: &dyn Fn(JobId) -> bool,
    ) -> Result<Step, StoreError> {
        let mut step = Step::default();
        if self.clearing {
            let cleared = store.clear_doomed(PIECE, under)?;
            add(&mut self.tally, cleared);
            self.clearing = cleared.more;
        } else if !self.condemned.is_empty() {
            self.doom(store, (now, under), in_hand, &mut step)?;
        } else {
            match &mut self.phase {
                Phase::Jobs(after) => {
                    let after = *after;
                    self.look_at_jobs(&*store.reader(), after, in_hand)?;
                }
                Phase::Logs(after) => {
                    let after = *after;
                    self.drop_logs(store, after, (now, under))?;
                }
                Phase::Definitions(after) => {
                    let (dropped, next) = store.prune_definitions(*after, LOOK_DEFINITIONS, under)?;
                    self.tally.definitions += dropped as u64;
                    self.phase = if next.is_some() { Phase::Definitions(next) } else { Phase::Strays };
                }
                Phase::Strays => self.drop_strays(store, under)?,
                Phase::Workers(_) => self.drop_workers(store, (now, under), &mut step)?,
                Phase::Done => {}
            }
        }
        step.done = matches!(self.phase, Phase::Done) && !self.clearing;
        Ok(step)
    }

    fn look_at_jobs(
        &mut self,
        reader: &dyn Reader,
        after: Option<JobId>,
        in_hand: &dyn Fn(JobId) -> bool,
    ) -> Result<(), StoreError> {
        let Some(before) = self.cutoffs.jobs else {
            self.phase = Phase::Logs(None);
            return Ok(());
        };
        let page = reader.old_jobs(after, JobId::lowest_at(before), LOOK_JOBS)?;
        let is_last = page.len() < LOOK_JOBS;
        let last = page.last().map(|job| job.id);
        for job in page {
            if self.family.last().is_some_and(|kin| !plan::are_kin(kin.id, job.id)) {
                self.judge(before, in_hand);
            }
            self.family.push(job);
        }
        if is_last {
            self.judge(before, in_hand);
            self.phase = Phase::Logs(None);
        } else {
            self.phase = Phase::Jobs(last);
        }
        Ok(())
    }

    fn judge(&mut self, before: Time, in_hand: &dyn Fn(JobId) -> bool) {
        let family = std::mem::take(&mut self.family);
        // The older one of those that go on for each other stands first in the table, and goes first.
        let goes_first = |old: JobId| self.condemned.iter().any(|(id, _)| *id == old);
        match plan::judge(&family, &plan::Rules { before, in_hand, goes_first: &goes_first }) {
            Ok(()) => self.condemned.extend(family.iter().map(|job| (job.id, job.version))),
            Err(keep) => plan::count(&mut self.tally.kept, keep, family.len()),
        }
    }

    /// Long may have passed since they were judged, and what was said of one of them since then leaves its version as it is: each
    /// family is judged again.
    fn doom(
        &mut self,
        store: &mut dyn Store,
        (now, under): (Time, Option<Tenure>),
        in_hand: &dyn Fn(JobId) -> bool,
        step: &mut Step,
    ) -> Result<(), StoreError> {
        let Some(before) = self.cutoffs.jobs else { return Ok(()) };
        raise_mark(store, before, (now, under))?;
        let some: Vec<(JobId, u64)> = self.condemned.iter().take(DOOMED_PER_STEP).copied().collect();
        let (mut sure, mut spared) = (Vec::<(JobId, u64)>::with_capacity(some.len()), None);
        for family in some.chunk_by(|one, next| plan::are_kin(one.0, next.0)) {
            let ((first, _), (last, _)) = (family[0], family[family.len() - 1]);
            let rows = store.reader().old_jobs(below(first.0), above(last.0), family.len() + 1)?;
            let goes_first = |old: JobId| sure.iter().any(|(id, _)| *id == old);
            match plan::judge(&rows, &plan::Rules { before, in_hand, goes_first: &goes_first }) {
                Ok(()) => sure.extend(family),
                Err(keep) => {
                    plan::count(&mut self.tally.kept, keep, family.len());
                    spared = Some(last);
                }
            }
        }
        step.jobs = store.doom(&sure, now, under)?;
        self.condemned.drain(..some.len());
        // What is left of a family that stays was to follow in the next step.
        while let Some((next, _)) = self.condemned.front()
            && spared.is_some_and(|spared| plan::are_kin(spared, *next))
        {
            self.condemned.pop_front();
        }
        self.tally.jobs += step.jobs.len() as u64;
        self.clearing = true;
        Ok(())
    }

    /// Lines whose time is over while their jobs stay.
    fn drop_logs(
        &mut self,
        store: &mut dyn Store,
        after: Option<AttemptId>,
        (now, under): (Time, Option<Tenure>),
    ) -> Result<(), StoreError> {
        self.phase = Phase::Definitions(None);
        let Some(before) = self.cutoffs.logs else { return Ok(()) };
        let page = store.reader().old_logs(after, AttemptId::lowest_at(before), LOOK_LOGS)?;
        let (mut reached, is_last) = (after, page.len() < LOOK_LOGS);
        for log in page {
            if may_go(&log, before) {
                let cleared = store.drop_log(log.attempt, now, PIECE, under)?;
                add(&mut self.tally, cleared);
                self.tally.logs += u64::from(cleared.log_lines > 0 && !cleared.more);
                // One log in one step: the rest of it, or the next, comes with the next step.
                reached = if cleared.more { reached } else { Some(log.attempt) };
                self.phase = Phase::Logs(reached);
                return Ok(());
            }
            reached = Some(log.attempt);
        }
        if !is_last {
            self.phase = Phase::Logs(reached);
        }
        Ok(())
    }

    /// What never had a job, or has none any more. It is kept for as long as jobs are.
    fn drop_strays(&mut self, store: &mut dyn Store, under: Option<Tenure>) -> Result<(), StoreError> {
        let mut more = false;
        if let Some(before) = self.cutoffs.jobs {
            let gone = store.drop_strays(before, STRAYS_PER_STEP, under)?;
            self.tally.words += gone.words;
            self.tally.quarantined += gone.quarantined;
            more = gone.more;
        }
        self.phase = if more { Phase::Strays } else { Phase::Workers(None) };
        Ok(())
    }

    fn drop_workers(
        &mut self,
        store: &mut dyn Store,
        (now, under): (Time, Option<Tenure>),
        step: &mut Step,
    ) -> Result<(), StoreError> {
        let Phase::Workers(known) = &mut self.phase else { return Ok(()) };
        let Some(by) = self.cutoffs.workers else {
            self.phase = Phase::Done;
            return Ok(());
        };
        let too_soon = Unseen { since: now, left_before: Heard::MAX };
        let by = if planted::is(Bug::WorkerDeletedTooSoon) { too_soon } else { by };
        let unseen = match known.take() {
            Some(rest) => rest,
            None => unseen(&*store.reader(), by)?,
        };
        let some = unseen.len().min(WORKERS_PER_STEP);
        for worker in &unseen[..some] {
            if store.depart(*worker, by.since, now, under)? {
                step.workers.push(*worker);
            }
        }
        self.tally.workers += step.workers.len() as u64;
        let rest = unseen[some..].to_vec();
        self.phase = if rest.is_empty() { Phase::Done } else { Phase::Workers(Some(rest)) };
        Ok(())
    }
}

pub(super) fn may_go(log: &OldLog, before: Time) -> bool {
    match log.job {
        Some(_) => log.complete && log.ended_at.is_some_and(|at| at < before),
        None => true,
    }
}

pub(super) fn unseen(reader: &dyn Reader, by: Unseen) -> Result<Vec<WorkerId>, StoreError> {
    let is_unseen = |row: &WorkerRow| {
        row.last_seen_at.unwrap_or(row.created_at) < by.since && row.left_heard.is_none_or(|left| left < by.left_before)
    };
    Ok(reader.workers()?.iter().filter(|row| is_unseen(row)).map(|row| row.id).collect())
}
