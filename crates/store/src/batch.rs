//! One transaction's worth of changes.

use std::collections::BTreeSet;

use engine::{AttemptId, JobId, Time};

use crate::rows::{
    AttemptRow, DefinitionRow, EventRow, IdempotencyRow, JobRow, LateOutcome, OutboxRow, QuarantineRow, StepRow,
};

/// Everything that the ledger decided in one round. Rows of one job stand or fall together.
#[derive(Debug, Default)]
pub struct Batch {
    pub now: Time,
    pub definitions: Vec<DefinitionRow>,
    pub jobs: Vec<JobWrite>,
    pub steps: Vec<StepRow>,
    pub attempts: Vec<AttemptRow>,
    pub events: Vec<EventRow>,
    pub outbox: Vec<OutboxRow>,
    pub idempotency: Vec<IdempotencyRow>,
    pub late_outcomes: Vec<LateOutcome>,
    pub quarantine: Vec<QuarantineRow>,
    pub logs: Vec<LogAppend>,
    /// Workers heard from since the last batch, with the time; only `last_seen_at` is written.
    pub seen: Vec<(engine::WorkerId, Time)>,
}

/// A job's header, and the version that the database must still have (none: the job is new).
#[derive(Debug)]
pub struct JobWrite {
    pub row: JobRow,
    pub expected: Option<u64>,
}

/// Log blocks of one attempt, in order and after what is stored, without a gap but the one that it names; or only the
/// word that the log is whole.
#[derive(Debug)]
pub struct LogAppend {
    pub attempt: AttemptId,
    pub first_seq: u64,
    /// `first_seq - 1` where `blocks` is empty.
    pub last_seq: u64,
    pub blocks: Vec<u8>,
    /// Lines right before `first_seq` that will never come.
    pub missing: u64,
    pub complete: bool,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Committed {
    /// Jobs that were left out because their version had moved.
    pub conflicts: BTreeSet<JobId>,
    /// The number of each event, in the order of the batch; none for events of jobs that were left out.
    pub event_ids: Vec<Option<u64>>,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
            && self.jobs.is_empty()
            && self.steps.is_empty()
            && self.attempts.is_empty()
            && self.events.is_empty()
            && self.outbox.is_empty()
            && self.idempotency.is_empty()
            && self.late_outcomes.is_empty()
            && self.quarantine.is_empty()
            && self.logs.is_empty()
            && self.seen.is_empty()
    }
}
