//! One transaction's worth of changes.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::{AttemptId, Epoch, Fence, Heard, JobId, Time, WorkerId};
use uuid::Uuid;

use crate::lease::{Claim, LeaseRow, Tenure};
use crate::rows::{
    AttemptRow, BeatRow, BreakerRow, DefinitionRow, EventRow, FleetChange, HearingRow, IdempotencyRow, JobRow,
    LateOutcome, LineageRow, OutboxMove, OutboxRow, QuarantineRow, ServerRow, StepRow, TriggerRow, WorkerHello,
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
    /// How far deliveries got; each is left out alone if somebody else was faster.
    pub outbox_moves: Vec<OutboxMove>,
    pub idempotency: Vec<IdempotencyRow>,
    pub late_outcomes: Vec<LateOutcome>,
    pub quarantine: Vec<QuarantineRow>,
    pub logs: Vec<LogAppend>,
    pub marks: Vec<LogMark>,
    pub log_deadlines: Vec<LogDeadline>,
    pub log_closes: Vec<LogClose>,
    pub beats: Beats,
    /// Workers heard from since the last batch, with the time; only `last_seen_at` is written.
    pub seen: Vec<(WorkerId, Time)>,
    /// Workers that said hello. Each epoch must be above the one that the row has, or the batch is
    /// [`Moved`](crate::StoreError::Moved).
    pub hellos: Vec<WorkerHello>,
    /// Workers that changed their own mind on new work, on this link of theirs; nothing if there is a newer one.
    pub unwilling: Vec<(WorkerId, Epoch, bool)>,
    /// Epochs that workers have said something on.
    pub used_epochs: Vec<(WorkerId, Epoch)>,
    /// Attempts that are over for certain, though their steps gave them up before.
    pub confirmed: Vec<(AttemptId, Fence)>,
    /// Attempts whose workers said that their processes run.
    pub begun: Vec<(AttemptId, Fence)>,
    /// We suspect ourselves from now on; and no longer.
    pub breaker: Option<BreakerRow>,
    pub breaker_ended: Option<Time>,
    /// Workers whose link of this epoch is gone, and since when; nothing if there is a newer one.
    pub left: Vec<(WorkerId, Epoch, Heard)>,
    /// The mark, if it is time for one.
    pub hearing: Option<Mark>,
    /// The server that writes this, as its siblings shall see it.
    pub server: Option<ServerRow>,
    /// Leases that it wants, or wants to keep; at most one claim of each. Who does not get one is left out with it alone.
    pub claims: Vec<Claim>,
    /// Leases under which something of it was decided. All must still be held, or the batch is
    /// [`Moved`](crate::StoreError::Moved).
    pub under: Vec<Tenure>,
    pub lineage: Vec<LineageRow>,
    /// Jobs of which one was decided because of the other: both are written, or both are left out.
    pub ties: Vec<(JobId, JobId)>,
    /// An operator's word on workers, and what follows from it for their attempts, stand or fall together.
    pub fleet: Vec<FleetChange>,
    pub triggers: Vec<TriggerWrite>,
    pub admissions: Vec<Admission>,
    /// Settings that outlive a server, as [`crate::Store::set_meta`] writes them.
    pub meta: Vec<(&'static str, String)>,
}

/// A mark, and the one that it was made after. If another server was faster, it is left out alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub row: HearingRow,
    /// None: there was no mark ever.
    pub expected: Option<HearingRow>,
}

/// A job's header, and the version that the database must still have (none: the job is new).
#[derive(Debug)]
pub struct JobWrite {
    pub row: JobRow,
    pub expected: Option<u64>,
}

/// A trigger's row, and the version that the database must still have (none: it is new). It and the jobs that it makes are
/// written together, or all are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerWrite {
    pub row: TriggerRow,
    pub expected: Option<u64>,
    pub jobs: Vec<JobId>,
}

/// Jobs that a concurrency group has room for, by what was known when the job `expected` was the last that was admitted.
/// Where another one was meanwhile, all of them are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    pub group: String,
    /// None: none ever was, or it is long ago.
    pub expected: Option<JobId>,
    /// In the order of service; at least one.
    pub jobs: Vec<JobId>,
    /// Jobs of this batch whose end made room for them.
    pub after: Vec<JobId>,
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

/// A line that the server puts into an attempt's log, after line `after_seq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMark {
    pub attempt: AttemptId,
    pub after_seq: u64,
    pub at: Time,
    /// Lines right after `after_seq` that it says are gone.
    pub missing: u64,
    pub text: String,
}

/// The attempt is over: its log is closed at `close_at`, unless it is whole by then. Nothing for one that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogDeadline {
    pub attempt: AttemptId,
    pub close_at: Time,
    /// The attempt's last line, where it is known.
    pub end_seq: Option<u64>,
}

/// Closes a log whose time is over; opened again by the next line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogClose {
    pub attempt: AttemptId,
    /// Where the log stands, and its last words there; none where no line is missing.
    pub after_seq: u64,
    pub text: Option<String>,
}

/// Signs of life since the last time, one row per attempt, sender and role.
#[derive(Debug, Default)]
pub struct Beats {
    pub rows: Vec<BeatRow>,
    /// A longer silence begins a new stretch, and the one before goes to the history.
    pub silence: Duration,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Committed {
    /// Jobs that were left out because their version had moved.
    pub conflicts: BTreeSet<JobId>,
    /// The number of each event, in the order of the batch; none for events of jobs that were left out.
    pub event_ids: Vec<Option<u64>>,
    /// Triggers that were left out because their version, or their job's, had moved.
    pub triggers_moved: BTreeSet<String>,
    /// Concurrency groups whose admissions were left out.
    pub groups_moved: BTreeSet<String>,
    /// The mark was left out, because there is another one than it was made after.
    pub mark_moved: bool,
    /// Rows of the outbox that somebody else was faster with.
    pub outbox_moved: BTreeSet<Uuid>,
    /// The leases that it claims, as they are now: the claimer's, or another one's.
    pub leases: Vec<LeaseRow>,
}

impl Batch {
    /// Nothing is to be written. What it was decided under is no matter then.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
            && self.jobs.is_empty()
            && self.steps.is_empty()
            && self.attempts.is_empty()
            && self.events.is_empty()
            && self.outbox.is_empty()
            && self.outbox_moves.is_empty()
            && self.idempotency.is_empty()
            && self.late_outcomes.is_empty()
            && self.quarantine.is_empty()
            && self.logs.is_empty()
            && self.marks.is_empty()
            && self.log_deadlines.is_empty()
            && self.log_closes.is_empty()
            && self.beats.rows.is_empty()
            && self.seen.is_empty()
            && self.lineage.is_empty()
            && self.confirmed.is_empty()
            && self.begun.is_empty()
            && self.fleet.is_empty()
            && self.triggers.is_empty()
            && self.admissions.is_empty()
            && self.meta.is_empty()
            && self.hellos.is_empty()
            && self.left.is_empty()
            && self.breaker.is_none()
            && self.breaker_ended.is_none()
            && self.used_epochs.is_empty()
            && self.unwilling.is_empty()
            && self.server.is_none()
            && self.claims.is_empty()
            && self.hearing.is_none()
    }
}
