//! Everything that is stored, for checkers, in the order of its keys.

use std::sync::MutexGuard;

use engine::{AttemptId, JobId, StepIx};
use store::rows::{
    AttemptRow, BreakerRow, EventRow, HearingRow, JobRow, LateOutcome, LineageRow, OutboxRow, QuarantineRow, StepRow,
    TriggerRow, WorkerRow,
};

use crate::tables::{AttemptRecord, LogRow, MarkRow, Tables};

/// A locked look at the rows themselves; nothing is copied.
#[derive(Debug)]
pub struct Rows<'a> {
    tables: MutexGuard<'a, Tables>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(tables: MutexGuard<'a, Tables>) -> Rows<'a> {
        Rows { tables }
    }

    pub fn job(&self, id: JobId) -> Option<&JobRow> {
        self.tables.jobs.get(&id)
    }

    pub fn jobs(&self) -> impl DoubleEndedIterator<Item = &JobRow> {
        self.tables.jobs.iter().map(|(_, row)| row)
    }

    /// By job and place in it.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &StepRow> {
        self.tables.steps.iter().map(|(_, row)| row)
    }

    pub fn steps_of(&self, job: JobId) -> impl DoubleEndedIterator<Item = &StepRow> {
        let whole = (job, StepIx(0))..=(job, StepIx(u32::MAX));
        self.tables.steps.range(whole).map(|(_, row)| row)
    }

    pub fn attempt(&self, id: AttemptId) -> Option<&AttemptRecord> {
        self.tables.attempts.get(&id)
    }

    pub fn attempts(&self) -> impl DoubleEndedIterator<Item = &AttemptRow> {
        self.tables.attempts.iter().map(|(_, record)| &record.row)
    }

    /// By step and number.
    pub fn attempts_of(&self, job: JobId) -> impl Iterator<Item = &AttemptRecord> {
        let first = ((job, StepIx(0)), 0, AttemptId(uuid::Uuid::nil()));
        let places = self.tables.attempts.index().range(first..).take_while(move |((of, _), ..)| *of == job);
        places.filter_map(|(.., id)| self.tables.attempts.get(id))
    }

    pub fn late_outcomes(&self) -> impl Iterator<Item = LateOutcome> {
        self.tables.attempts.iter().filter_map(|(id, record)| {
            let (outcome, at) = record.late_outcome.clone()?;
            Some(LateOutcome { attempt: *id, outcome, at })
        })
    }

    /// With their numbers, from the one after `after` on.
    pub fn events_after(&self, after: u64) -> impl DoubleEndedIterator<Item = (u64, &EventRow)> {
        self.tables.events.range(after.saturating_add(1)..).map(|(id, row)| (*id, row))
    }

    pub fn outbox(&self) -> impl Iterator<Item = &OutboxRow> {
        self.tables.outbox.iter().map(|(_, record)| &record.row)
    }

    pub fn quarantine(&self) -> impl Iterator<Item = &QuarantineRow> {
        self.tables.quarantine.iter().map(|(_, row)| row)
    }

    pub fn lineage(&self) -> impl Iterator<Item = &LineageRow> {
        self.tables.lineage.iter().map(|(_, row)| row)
    }

    pub fn logs(&self) -> impl Iterator<Item = (AttemptId, &LogRow)> {
        self.tables.logs.iter().map(|(attempt, row)| (*attempt, row))
    }

    /// First line, last line and blocks of each stored piece.
    pub fn log_chunks(&self, attempt: AttemptId) -> impl Iterator<Item = (u64, u64, &[u8])> {
        let chunks = self.tables.chunks.range((attempt, 0)..=(attempt, u64::MAX));
        chunks.map(|((_, first), chunk)| (*first, chunk.last_seq, chunk.blocks.as_slice()))
    }

    pub fn log_marks(&self, attempt: AttemptId) -> impl Iterator<Item = &MarkRow> {
        self.tables.marks.range((attempt, 0, 0)..=(attempt, u64::MAX, u32::MAX)).map(|(_, mark)| mark)
    }

    pub fn workers(&self) -> impl Iterator<Item = &WorkerRow> {
        self.tables.workers.iter().map(|(_, record)| &*record.row)
    }

    pub fn triggers(&self) -> impl Iterator<Item = &TriggerRow> {
        self.tables.triggers.iter().map(|(_, row)| row)
    }

    pub fn hearing(&self) -> Option<&HearingRow> {
        self.tables.hearing.get(&())
    }

    pub fn breaker(&self) -> Option<&BreakerRow> {
        self.tables.breaker.get(&())
    }
}
