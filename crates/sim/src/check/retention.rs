//! Promise: what is deleted was over, all of it that belongs together, with nothing that may still run and nobody who goes on
//! for it; it never comes back; and what may go is gone some time after its time is over. A job that goes on for another has
//! the inputs that were asked for.
//!
//! A worker is deleted that is not connected, was not heard for its time, and has nothing that may still run. When it comes back it is told
//! so, as one that was removed, and never welcomed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::{AttemptId, Epoch, JobId, Time, WorkerId};
use protocol::link::RefusedCode;
use store::rows::FleetChange;
use store::{Batch, Reader};

use super::doubts::Doubts;
use super::ears::Ears;
use super::rows::{JobSeen, Rows};
use super::{Accepted, FASTEST_CLOCK, Findings};
use crate::setup::Setup;

const CHECKER: &str = "retention";

/// A word is written some time after it was heard.
const COMMIT: Duration = Duration::from_secs(2);

/// Who is refused for another reason comes again after so long.
const NEXT_TRY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Retention {
    /// How long after its end a job is gone at the latest, while nothing goes wrong; none where jobs are kept.
    bound: Option<Duration>,
    deleted: BTreeSet<JobId>,
    /// The last time that something was written of a job.
    touched: BTreeMap<JobId, Duration>,
    /// Inputs that a job was to be run with once more.
    asked: BTreeMap<JobId, Vec<String>>,
    workers: Workers,
}

/// What is known of workers that may go.
#[derive(Debug, Default)]
struct Workers {
    /// How long they may be away.
    kept: Option<Duration>,
    /// Those with a link, by the rows.
    linked: BTreeMap<WorkerId, Epoch>,
    /// When each was last heard by the clock of its server, and what had been listened to when that was written.
    seen: BTreeMap<WorkerId, (Time, Duration)>,
    gone: BTreeMap<WorkerId, Duration>,
}

impl Retention {
    pub(crate) fn new(setup: &Setup) -> Retention {
        let rules = &setup.core.retention;
        Retention {
            bound: rules.jobs.map(|kept| kept + 3 * rules.every + rules.settle),
            workers: Workers { kept: rules.workers, ..Workers::default() },
            ..Retention::default()
        }
    }

    pub(super) fn is_deleted(&self, job: JobId) -> bool {
        self.deleted.contains(&job)
    }

    pub(super) fn input_asked(&mut self, job: JobId, input: String) {
        self.asked.entry(job).or_default().push(input);
    }

    /// `rows` are those before the batch.
    pub(super) fn committed(
        &mut self,
        now: Duration,
        rows: &Rows,
        (batch, accepted): (&Batch, &Accepted<'_>),
        found: &mut Findings,
    ) {
        let written = accepted.jobs().map(|row| row.id).chain(accepted.steps().map(|row| row.job));
        for job in written.filter(|job| self.deleted.contains(job)) {
            found.add(CHECKER, format!("job {job} was deleted, and is written again"));
        }
        let told = batch.events.iter().map(|event| event.job).chain(accepted.jobs().map(|row| row.id));
        self.touched.extend(told.map(|job| (job, now)));
        for line in batch.lineage.iter().filter(|line| accepted.job(line.job)) {
            let Some(job) = accepted.jobs().find(|row| row.id == line.job) else { continue };
            let asked = || self.asked.get(&line.continues).into_iter().flatten();
            let old = rows.job(line.continues).map(|job| job.input.as_str());
            let right = match line.how {
                "retry_changed" => asked().any(|input| *input == job.input),
                _ => old.is_none_or(|old| old == job.input),
            };
            if !right {
                let how = format!("{} goes on for {} ({}) with {}", line.job, line.continues, line.how, job.input);
                found.add(CHECKER, format!("job {how}, and not with what was asked for"));
            }
        }
    }

    /// These are off the record.
    pub(super) fn deleted(&mut self, jobs: &[JobId], rows: &Rows, doubts: &Doubts, found: &mut Findings) {
        for id in jobs {
            if let Some(wrong) = wrong(*id, rows, doubts) {
                found.add(CHECKER, format!("job {id} was deleted, and {wrong}"));
            }
        }
        self.deleted.extend(jobs);
    }

    /// `ears` have not heard this batch.
    pub(super) fn heard_of_workers(&mut self, ears: &Ears, batch: &Batch, found: &mut Findings) {
        let workers = &mut self.workers;
        for hello in &batch.hellos {
            if workers.gone.contains_key(&hello.id) {
                found.add(CHECKER, format!("worker {} was deleted, and is welcomed", hello.id));
            }
            workers.linked.insert(hello.id, hello.epoch);
            workers.seen.insert(hello.id, (batch.now, ears.listened()));
        }
        for (worker, at) in &batch.seen {
            let before = workers.seen.get(worker).map_or(Time(0), |(before, _)| *before);
            workers.seen.insert(*worker, (before.max(*at), ears.listened()));
        }
        for (worker, epoch, _) in &batch.left {
            if workers.linked.get(worker) == Some(epoch) {
                workers.linked.remove(worker);
            }
        }
        // Whoever was removed is sent away, whether it is there or not.
        for change in &batch.fleet {
            if let FleetChange::Remove { worker, .. } = change {
                workers.linked.remove(worker);
            }
        }
    }

    /// This worker is off the record. `whole`: no commits were ever lost, among which may be what is held against it here.
    pub(super) fn departed(
        &mut self,
        worker: WorkerId,
        (now, ears, unseen_since): (Duration, &Ears, Time),
        (rows, doubts, whole): (&Rows, &Doubts, bool),
        found: &mut Findings,
    ) {
        let mut wrong = |what: String| found.add(CHECKER, format!("worker {worker} was deleted, and {what}"));
        let may_run = |(id, attempt): &(&AttemptId, &super::rows::AttemptSeen)| {
            attempt.worker == worker && (!attempt.is_over() || attempt.in_doubt) && !doubts.is_certain(**id)
        };
        if let Some((attempt, _)) = rows.attempts.iter().find(may_run) {
            wrong(format!("attempt {attempt} may still run there"));
        }
        if whole && self.workers.linked.contains_key(&worker) {
            wrong("it is connected".to_owned());
        }
        if let Some((last, listened)) = self.workers.seen.get(&worker).filter(|_| whole) {
            if *last >= unseen_since {
                wrong("it was heard since the time by which it goes".to_owned());
            }
            let away = (now - ears.worker(worker).seen).mul_f64(FASTEST_CLOCK) + COMMIT;
            if self.workers.kept.is_none_or(|kept| away < kept) && !ears.has_leapt_since(*listened) {
                wrong(format!("it was away for {away:?} only"));
            }
        }
        self.workers.gone.insert(worker, now);
    }

    /// Which of the deleted workers are there again nobody needs to know: their rows decide anew.
    pub(super) fn workers_came_back(&mut self) {
        self.workers.gone.clear();
    }

    pub(super) fn sent_away(&self, worker: WorkerId, code: RefusedCode, found: &mut Findings) {
        if self.workers.gone.contains_key(&worker) && code != RefusedCode::Removed {
            found.add(CHECKER, format!("worker {worker} was deleted, came back, and is told {code:?}"));
        }
    }

    pub(super) fn worker_at_the_end(&self, now: Duration, host: usize, worker: WorkerId, found: &mut Findings) {
        if self.workers.gone.get(&worker).is_some_and(|at| *at + NEXT_TRY < now) {
            found.add(CHECKER, format!("worker {worker} was deleted, and host {host} has not been told so"));
        }
    }

    /// Commits are gone, and deletions may be among them. A job whose beginning is gone as well was never there, by what is
    /// left: whatever makes it again (its time, its parent, a hook) may. `rows` are those that are left.
    pub(super) fn came_back(&mut self, rows: &Rows, is_there: &dyn Fn(JobId) -> bool) {
        self.deleted.retain(|job| rows.job(*job).is_some() && !is_there(*job));
    }

    /// All has been quiet for a while. `whole`: no commits were ever lost, which would hide why something stays.
    pub(super) fn at_the_end(
        &self,
        now: Duration,
        (rows, doubts): (&Rows, &Doubts),
        reader: &dyn Reader,
        whole: bool,
        found: &mut Findings,
    ) {
        let Some(bound) = self.bound.filter(|_| whole) else { return };
        for (id, _) in rows.jobs.iter().filter(|(id, _)| !self.deleted.contains(id)) {
            if !self.may_stay(*id, (now, bound), (rows, doubts), reader) {
                found.add(CHECKER, format!("job {id} has been old for long, and is still there"));
            }
        }
    }

    /// It, or somebody that it goes with, has a reason.
    fn may_stay(
        &self,
        id: JobId,
        (now, bound): (Duration, Duration),
        (rows, doubts): (&Rows, &Doubts),
        reader: &dyn Reader,
    ) -> bool {
        let line = rows.jobs.keys().filter(|other| rows.root(**other) == rows.root(id));
        let mut all: BTreeSet<JobId> = line.copied().collect();
        // Whoever is in the line of one of the family holds it up, too.
        for (member, _) in kin(id, rows) {
            all.extend(rows.jobs.keys().filter(|other| rows.root(**other) == rows.root(member)));
        }
        let whole: Vec<JobId> = all.iter().flat_map(|job| kin(*job, rows)).map(|(job, _)| job).collect();
        whole.iter().any(|job| {
            let is_young = self.touched.get(job).is_none_or(|at| now < *at + bound);
            is_young || doubtful(*job, rows, doubts).is_some() || has_work(*job, rows, reader)
        })
    }
}

/// Something of it is under way.
fn wrong(id: JobId, rows: &Rows, doubts: &Doubts) -> Option<String> {
    let kin = kin(id, rows);
    if let Some((open, _)) = kin.iter().find(|(_, job)| !job.is_final) {
        return Some(format!("{open} of its family is not over"));
    }
    if let Some(attempt) = doubtful(id, rows, doubts) {
        return Some(format!("attempt {attempt} of it may still run"));
    }
    let next = rows.open_jobs().find(|(other, _)| *other != id && rows.root(*other) == rows.root(id));
    next.map(|(next, _)| format!("{next}, which is in its line, is not over"))
}

fn doubtful(job: JobId, rows: &Rows, doubts: &Doubts) -> Option<AttemptId> {
    let of_job = rows.attempts.iter().filter(|(_, attempt)| attempt.place.job == job && attempt.in_doubt);
    of_job.map(|(id, _)| *id).find(|id| !doubts.is_certain(*id))
}

fn has_work(job: JobId, rows: &Rows, reader: &dyn Reader) -> bool {
    let attempts = rows.attempts.iter().filter(|(_, attempt)| attempt.place.job == job);
    let is_open = |id: &AttemptId| {
        reader.log_state(*id).is_ok_and(|state| !state.complete) && reader.attempt(*id).is_ok_and(|row| row.is_some())
    };
    let waits = |post: Vec<store::read::OutboxView>| post.iter().any(|row| row.next_at.is_some());
    attempts.map(|(id, _)| id).any(is_open) || reader.outbox_of(job, 100).is_ok_and(waits)
}

/// All jobs that began each other, or followed on each other's end.
fn kin(id: JobId, rows: &Rows) -> Vec<(JobId, &JobSeen)> {
    rows.jobs.iter().filter(|(other, _)| other.may_be_kin(id)).map(|(id, job)| (*id, job)).collect()
}
