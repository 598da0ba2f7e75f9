//! The checkers. They see every commit and every child's life, decide nothing, and share nothing with the engine but types.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use engine::{AttemptId, JobId, StepIx};
use protocol::attempt::Ticket;
use store::{Batch, Committed};

use crate::database::Witness;
use crate::setup::Setup;

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

/// What the checkers know.
pub(crate) struct Checks {
    findings: Vec<Finding>,
    jobs: BTreeMap<JobId, JobSeen>,
    /// Where an attempt belongs, from the first row that names it.
    attempts: BTreeMap<AttemptId, (JobId, StepIx)>,
    children: Vec<Child>,
    printed: BTreeMap<Ticket, Vec<(u64, String, bool)>>,
}

struct JobSeen {
    state: &'static str,
    is_final: bool,
    steps: BTreeMap<StepIx, StepSeen>,
}

struct StepSeen {
    state: &'static str,
    is_final: bool,
}

/// The life of one step's processes on some host.
struct Child {
    ticket: Ticket,
    host: usize,
    ended: Option<Duration>,
}

impl Checks {
    pub(crate) fn new(_setup: &Setup) -> Checks {
        Checks {
            findings: Vec::new(),
            jobs: BTreeMap::new(),
            attempts: BTreeMap::new(),
            children: Vec::new(),
            printed: BTreeMap::new(),
        }
    }

    pub(crate) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn found(&mut self, checker: &'static str, what: String) {
        self.findings.push(Finding { checker, what });
    }

    pub(crate) fn submitted(&mut self, plan: usize, job: JobId, earlier: Option<JobId>) {
        if let Some(earlier) = earlier.filter(|earlier| *earlier != job) {
            self.found("submit", format!("plan {plan} became two jobs, {earlier} and {job}"));
        }
    }

    pub(crate) fn cancel_asked(&mut self, _job: JobId) {}

    pub(crate) fn resolved(&mut self, _job: JobId, _step: StepIx) {}

    pub(crate) fn open_jobs(&self) -> Vec<JobId> {
        self.jobs.iter().filter(|(_, job)| !job.is_final).map(|(id, _)| *id).collect()
    }

    pub(crate) fn has_open_jobs(&self) -> bool {
        self.jobs.values().any(|job| !job.is_final)
    }

    pub(crate) fn failed_jobs(&self) -> Vec<JobId> {
        self.jobs.iter().filter(|(_, job)| job.state == "failed").map(|(id, _)| *id).collect()
    }

    pub(crate) fn steps_in(&self, state: &str) -> Vec<(JobId, StepIx)> {
        let of_job = |(id, job): (&JobId, &JobSeen)| {
            let steps: Vec<(JobId, StepIx)> =
                job.steps.iter().filter(|(_, step)| step.state == state).map(|(ix, _)| (*id, *ix)).collect();
            steps
        };
        self.jobs.iter().filter(|(_, job)| !job.is_final).flat_map(of_job).collect()
    }

    pub(crate) fn child_started(&mut self, _now: Duration, host: usize, ticket: Ticket) {
        self.children.push(Child { ticket, host, ended: None });
        let Some(place) = self.attempts.get(&AttemptId(ticket.attempt)) else {
            return self.found("start", format!("attempt {} runs, and no start of it is committed", ticket.attempt));
        };
        let _ = place;
    }

    pub(crate) fn child_ended(&mut self, now: Duration, host: usize, ticket: Ticket) {
        if let Some(child) = self.children.iter_mut().rfind(|child| (child.ticket, child.host) == (ticket, host)) {
            child.ended.get_or_insert(now);
        }
    }

    pub(crate) fn printed(&mut self, ticket: Ticket, seq: u64, text: String, written: bool) {
        self.printed.entry(ticket).or_default().push((seq, text, written));
    }

    /// The world is at its end.
    pub(crate) fn at_the_end(&mut self, unacknowledged: usize) {
        if unacknowledged > 0 {
            self.found("liveness", format!("{unacknowledged} submits were never answered"));
        }
        let open: Vec<String> = self
            .jobs
            .iter()
            .filter(|(_, job)| !job.is_final)
            .map(|(id, job)| {
                let steps: Vec<&str> = job.steps.values().map(|step| step.state).collect();
                format!("{id} is {} ({})", job.state, steps.join(" "))
            })
            .collect();
        if !open.is_empty() {
            self.found("liveness", format!("not over long after peace: {}", open.join("; ")));
        }
    }
}

impl Witness for Checks {
    fn committed(&mut self, _server: usize, batch: &Batch, committed: &Committed) {
        for write in batch.jobs.iter().filter(|write| !committed.conflicts.contains(&write.row.id)) {
            let row = &write.row;
            let before = self.jobs.get(&row.id);
            if before.is_some_and(|job| job.is_final) {
                self.found("final", format!("job {} is over and was written again as {}", row.id, row.state));
            }
            let is_final = row.check_at.is_none();
            if !is_final && (row.owner.is_none() || row.action.is_none()) {
                self.found("owner", format!("job {} is {} and has no owner or action", row.id, row.state));
            }
            let steps = self.jobs.remove(&row.id).map(|job| job.steps).unwrap_or_default();
            self.jobs.insert(row.id, JobSeen { state: row.state, is_final, steps });
        }
        for row in batch.steps.iter().filter(|row| !committed.conflicts.contains(&row.job)) {
            if let Some(attempt) = row.attempt {
                self.attempts.insert(attempt, (row.job, row.ix));
            }
            let is_final = row.check_at.is_none();
            if !is_final && (row.owner.is_none() || row.action.is_none()) {
                self.found("owner", format!("step {} of {} is {} without an owner", row.name, row.job, row.state));
            }
            let Some(job) = self.jobs.get_mut(&row.job) else { continue };
            let before = job.steps.insert(row.ix, StepSeen { state: row.state, is_final });
            if before.is_some_and(|step| step.is_final) {
                self.found("final", format!("step {} of {} is over and was written again", row.name, row.job));
            }
        }
    }
}
