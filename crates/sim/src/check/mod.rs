//! The checkers. They see every commit and every child's life, decide nothing, and share nothing with the engine but types.
//!
//! [`Checks`] is their one door: the database shows it every batch (a [`Witness`]), the world tells it what really happened.
//! Each checker is a file of its own that opens with what it promises. All of them work on what a batch or an event brings;
//! what has to look at everything does so at a few moments, or at the end.

mod dwell;
mod ears;
mod finals;
mod lives;
mod orphans;
mod plans;
mod rows;
mod silence;
mod times;
mod voices;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use engine::{AttemptId, JobId, StepIx, WorkerId};
use protocol::attempt::Ticket;
use store::rows::{AttemptRow, JobRow, StepRow};
use store::{Batch, Committed};

use crate::database::Witness;
use crate::setup::Setup;
use crate::workload::JobPlan;
use dwell::Dwell;
use ears::Ears;
use finals::Finals;
use lives::Lives;
use orphans::Orphans;
use plans::Plans;
use rows::{Place, Rows};
use silence::Silence;
use times::Times;
use voices::Voices;

/// Something that must never happen did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The checker's name.
    pub checker: &'static str,
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.what)
    }
}

/// What is wrong, in the order in which it was found.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, checker: &'static str, what: String) {
        self.0.push(Finding { checker, what });
    }
}

/// What the checkers know.
pub(crate) struct Checks {
    /// True time, which no party can read.
    now: Duration,
    found: Findings,
    plans: Plans,
    rows: Rows,
    times: Times,
    finals: Finals,
    voices: Voices,
    lives: Lives,
    ears: Ears,
    silence: Silence,
    dwell: Dwell,
    orphans: Orphans,
    printed: BTreeMap<Ticket, Vec<(u64, String, bool)>>,
}

impl Checks {
    pub(crate) fn new(setup: &Setup, plans: &[JobPlan]) -> Checks {
        Checks {
            now: Duration::ZERO,
            found: Findings::default(),
            plans: Plans::new(plans),
            rows: Rows::default(),
            times: Times::default(),
            finals: Finals::default(),
            voices: Voices::default(),
            lives: Lives::new(setup),
            ears: Ears::new(setup),
            silence: Silence::new(setup),
            dwell: Dwell::new(setup),
            orphans: Orphans::default(),
            printed: BTreeMap::new(),
        }
    }

    pub(crate) fn findings(&self) -> &[Finding] {
        &self.found.0
    }

    /// It is this late now.
    pub(crate) fn moment(&mut self, now: Duration) {
        self.now = now;
    }

    pub(crate) fn submitted(&mut self, plan: usize, job: JobId, earlier: Option<JobId>) {
        if let Some(earlier) = earlier.filter(|earlier| *earlier != job) {
            self.found.add("submit", format!("plan {plan} became two jobs, {earlier} and {job}"));
        }
    }

    pub(crate) fn rerun_asked(&mut self, job: JobId, step: StepIx) {
        self.lives.rerun_asked(Place { job, step });
    }

    pub(crate) fn open_jobs(&self) -> Vec<JobId> {
        self.rows.open_jobs().map(|(id, _)| id).collect()
    }

    pub(crate) fn has_open_jobs(&self) -> bool {
        self.rows.has_open_jobs()
    }

    pub(crate) fn failed_jobs(&self) -> Vec<JobId> {
        self.rows.jobs.iter().filter(|(_, job)| job.state == "failed").map(|(id, _)| *id).collect()
    }

    pub(crate) fn steps_in(&self, state: &str) -> Vec<(JobId, StepIx)> {
        let mut found = Vec::new();
        for (id, job) in self.rows.open_jobs() {
            found.extend(job.steps.iter().filter(|(_, step)| step.state == state).map(|(ix, _)| (id, *ix)));
        }
        found
    }

    /// This worker says in its hello that it will not come back.
    pub(crate) fn will_not_come_back(&mut self, worker: WorkerId) {
        self.lives.will_not_come_back(worker);
    }

    pub(crate) fn child_started(&mut self, now: Duration, host: usize, ticket: Ticket) {
        self.lives.started(now, host, ticket, &self.rows, &self.plans, &mut self.found);
    }

    pub(crate) fn child_ended(&mut self, now: Duration, ticket: Ticket) {
        self.lives.ended(now, ticket, &mut self.found);
    }

    pub(crate) fn runner_freezes(&mut self, now: Duration, ticket: Ticket, time: Duration) {
        self.ears.runner_freezes(AttemptId(ticket.attempt), now, now + time);
    }

    pub(crate) fn host_sleeps(&mut self, host: usize) {
        self.lives.host_sleeps(host);
    }

    /// It goes on, or has lost its power.
    pub(crate) fn host_wakes(&mut self, now: Duration, host: usize) {
        self.lives.host_wakes(now, host);
    }

    pub(crate) fn printed(&mut self, ticket: Ticket, seq: u64, text: String, written: bool) {
        self.printed.entry(ticket).or_default().push((seq, text, written));
    }

    /// The world is at its end.
    pub(crate) fn at_the_end(&mut self, unacknowledged: usize) {
        if unacknowledged > 0 {
            self.found.add("liveness", format!("{unacknowledged} submits were never answered"));
        }
        let open: Vec<String> = self
            .rows
            .open_jobs()
            .map(|(id, job)| {
                let steps: Vec<&str> = job.steps.values().map(|step| step.state).collect();
                format!("{id} is {} ({})", job.state, steps.join(" "))
            })
            .collect();
        if !open.is_empty() {
            self.found.add("liveness", format!("not over long after peace: {}", open.join("; ")));
        }
    }
}

impl Witness for Checks {
    fn committed(&mut self, _server: usize, batch: &Batch, committed: &Committed) {
        let accepted = Accepted { batch, committed };
        let Checks { now, found, plans, rows, .. } = self;
        self.finals.committed(rows, batch, &accepted, found);
        self.voices.committed(rows, batch, &accepted, found);
        for row in accepted.attempts().filter(|row| !rows.attempts.contains_key(&row.id)) {
            self.lives.granted(*now, row, rows, plans, found);
        }
        self.times.committed(*now, batch, &accepted, found);
        self.ears.committed(*now, batch);
        let lives = |attempt| self.lives.is_alive(attempt);
        self.silence.committed(*now, &self.ears, rows, &accepted, lives, found);
        rows.take(*now, batch, &accepted);
        self.dwell.committed(*now, &self.ears, (rows, plans), (batch, &accepted), found);
        self.orphans.look(*now, &self.ears, &self.lives, (rows, plans), found);
    }

    fn refused(&mut self, _server: usize, batch: &Batch) {
        self.times.refused(batch);
        self.dwell.refused(batch);
    }
}

/// The rows of a batch that are in the database now: those of jobs that had moved are not.
pub(crate) struct Accepted<'a> {
    batch: &'a Batch,
    committed: &'a Committed,
}

impl<'a> Accepted<'a> {
    fn job(&self, id: JobId) -> bool {
        !self.committed.conflicts.contains(&id)
    }

    fn jobs(&self) -> impl Iterator<Item = &'a JobRow> {
        self.batch.jobs.iter().map(|write| &write.row).filter(|row| self.job(row.id))
    }

    fn steps(&self) -> impl Iterator<Item = &'a StepRow> {
        self.batch.steps.iter().filter(|row| self.job(row.job))
    }

    fn attempts(&self) -> impl Iterator<Item = &'a AttemptRow> {
        self.batch.attempts.iter().filter(|row| self.job(row.job))
    }
}
