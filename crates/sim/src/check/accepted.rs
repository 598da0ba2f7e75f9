//! The rows of a batch that are in the database now: those of jobs that had moved are not.

use engine::JobId;
use store::rows::{AttemptRow, JobRow, StepRow};
use store::{Batch, Committed, TriggerWrite};

pub(crate) struct Accepted<'a> {
    pub batch: &'a Batch,
    pub committed: &'a Committed,
}

impl<'a> Accepted<'a> {
    pub(super) fn job(&self, id: JobId) -> bool {
        !self.committed.conflicts.contains(&id)
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = &'a JobRow> {
        self.batch.jobs.iter().map(|write| &write.row).filter(|row| self.job(row.id))
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = &'a StepRow> {
        self.batch.steps.iter().filter(|row| self.job(row.job))
    }

    pub(super) fn triggers(&self) -> impl Iterator<Item = &'a TriggerWrite> {
        self.batch.triggers.iter().filter(|write| !self.committed.triggers_moved.contains(&write.row.id))
    }

    pub(super) fn attempts(&self) -> impl Iterator<Item = &'a AttemptRow> {
        self.batch.attempts.iter().filter(|row| self.job(row.job))
    }
}
