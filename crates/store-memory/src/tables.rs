//! All tables of a database, and transactions over them.

use std::sync::Arc;

use engine::{AttemptId, JobId, Time, WorkerId};
use store::read::{LogState, OutboxView};
use store::rows::{
    AttemptRow, BeatRow, BreakerRow, DefinitionRow, EventRow, HearingRow, IdempotencyRow, JobRow, LineageRow,
    OutboxRow, QuarantineRow, SecretRow, ServerRow, StepRow, TaskRow, TokenRow, TriggerRow, WorkerRow,
};
use store::{LeaseRow, StoreError};

use crate::database::FORGETTABLE_COMMITS;
use crate::table::{Journal, Table};

/// The counter that fences come from.
pub(crate) const FENCES_COUNTER: &str = "fence";

/// The counter below which no event gets its number; written by whoever deletes events.
pub(crate) const EVENTS_COUNTER: &str = "event";

/// The counter that generations of servers come from.
pub(crate) const GENERATIONS_COUNTER: &str = "server";

#[derive(Debug, Default, Clone)]
pub(crate) struct Tables {
    /// How many transactions made this state.
    pub(crate) commits: u64,
    /// The state after this many is the oldest that there is a way back to.
    oldest: u64,
    pub(crate) definitions: Table<DefinitionRow>,
    pub(crate) jobs: Table<JobRow>,
    pub(crate) steps: Table<StepRow>,
    pub(crate) attempts: Table<AttemptRecord>,
    pub(crate) events: Table<EventRow>,
    pub(crate) outbox: Table<OutboxRecord>,
    pub(crate) idempotency: Table<IdempotencyRow>,
    pub(crate) quarantine: Table<QuarantineRow>,
    pub(crate) lineage: Table<LineageRow>,
    pub(crate) logs: Table<LogRow>,
    pub(crate) chunks: Table<ChunkRow>,
    pub(crate) marks: Table<MarkRow>,
    pub(crate) beats: Table<BeatRow>,
    pub(crate) beat_history: Table<PastBeat>,
    pub(crate) workers: Table<WorkerRecord>,
    pub(crate) tokens: Table<TokenRow>,
    pub(crate) secrets: Table<SecretRow>,
    pub(crate) tasks: Table<TaskRow>,
    pub(crate) triggers: Table<TriggerRow>,
    pub(crate) groups: Table<GroupRow>,
    pub(crate) servers: Table<ServerRow>,
    pub(crate) leases: Table<LeaseRow>,
    pub(crate) hearing: Table<HearingRow>,
    pub(crate) breaker: Table<BreakerRow>,
    pub(crate) meta: Table<MetaRow>,
    pub(crate) counters: Table<Counter>,
    pub(crate) doomed: Table<DoomedRow>,
    pub(crate) departed: Table<DepartedRow>,
}

/// A granted attempt, with what was said of it beside its state: that it began, and an end that came when it was given up already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    pub row: AttemptRow,
    pub begun: bool,
    pub late_outcome: Option<(String, Time)>,
}

/// Something to be delivered, and how far that got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutboxRecord {
    pub(crate) row: OutboxRow,
    pub(crate) tries: u32,
    pub(crate) next_at: Option<Time>,
    pub(crate) delivered_at: Option<Time>,
    pub(crate) error: Option<String>,
}

impl OutboxRecord {
    pub(crate) fn is_dead(&self) -> bool {
        self.next_at.is_none() && self.delivered_at.is_none()
    }

    pub(crate) fn view(&self) -> OutboxView {
        let OutboxRow { id, job, kind, body, created_at } = self.row.clone();
        OutboxView {
            id,
            job,
            kind: kind.to_owned(),
            body,
            created_at,
            tries: self.tries,
            next_at: self.next_at,
            delivered_at: self.delivered_at,
            error: self.error.clone(),
        }
    }
}

/// Where an attempt's log stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogRow {
    pub last_seq: u64,
    pub complete: bool,
    /// `complete` only because its time was over.
    pub closed: bool,
    pub close_at: Option<Time>,
    /// The attempt's last line, where it is known.
    pub end_seq: Option<u64>,
}

/// A line of the server's own in a log, after line `after_seq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkRow {
    pub attempt: AttemptId,
    pub after_seq: u64,
    pub sub: u32,
    pub at: Time,
    pub missing: u64,
    pub closing: bool,
    pub text: String,
}

#[derive(Debug, Clone)]
pub(crate) struct ChunkRow {
    pub(crate) last_seq: u64,
    pub(crate) blocks: Vec<u8>,
}

/// A stretch of signs of life that ended.
#[derive(Debug, Clone)]
pub(crate) struct PastBeat(pub(crate) BeatRow);

#[derive(Debug, Clone)]
pub(crate) struct WorkerRecord {
    pub(crate) row: Arc<WorkerRow>,
    pub(crate) credential_hash: [u8; 32],
}

#[derive(Debug, Clone)]
pub(crate) struct MetaRow(pub(crate) String);

/// A job that is off the record, and of which something is left.
#[derive(Debug, Clone)]
pub(crate) struct DoomedRow {
    pub(crate) _at: Time,
}

/// A worker that was deleted for not having been seen.
#[derive(Debug, Clone)]
pub(crate) struct DepartedRow {
    pub(crate) credential_hash: [u8; 32],
    pub(crate) at: Time,
}

/// The job that was last admitted to a concurrency group, and when.
#[derive(Debug, Clone)]
pub(crate) struct GroupRow {
    pub(crate) last_admitted: JobId,
    pub(crate) admitted_at: Time,
}

#[derive(Debug, Clone)]
pub(crate) struct Counter(pub(crate) u64);

impl Tables {
    /// All that `write` does, or nothing of it.
    pub(crate) fn transact<T>(
        &mut self,
        write: impl FnOnce(&mut Tables) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let number = self.commits + 1;
        let oldest = self.oldest.max(number.saturating_sub(FORGETTABLE_COMMITS));
        for table in self.journals() {
            table.begin(number, oldest + 1);
        }
        self.oldest = oldest;
        let written = write(self);
        if written.is_ok() {
            self.commits = number;
        } else {
            self.undo_from(number);
        }
        written
    }

    /// Takes back the newest transactions, as far as they are remembered; returns how many.
    pub(crate) fn forget_last(&mut self, count: u64) -> u64 {
        let forgotten = count.min(self.commits - self.oldest);
        self.commits -= forgotten;
        self.undo_from(self.commits + 1);
        forgotten
    }

    /// The same state without a way back.
    pub(crate) fn copy(&self) -> Tables {
        Tables { oldest: self.commits, ..self.clone() }
    }

    /// The highest number that an event ever had.
    pub(crate) fn last_event(&self) -> u64 {
        let floor = self.counters.get(&EVENTS_COUNTER).map_or(0, |counter| counter.0);
        self.events.iter().next_back().map_or(floor, |(id, _)| floor.max(*id))
    }

    pub(crate) fn log_state(&self, attempt: AttemptId) -> LogState {
        let LogRow { last_seq, complete, closed, end_seq, .. } = self.logs.get(&attempt).copied().unwrap_or_default();
        let here = self.marks.range((attempt, last_seq, 0)..=(attempt, last_seq, u32::MAX));
        LogState { last_seq, complete, closed, announced: here.map(|(_, mark)| mark.missing).sum(), end_seq }
    }

    pub(crate) fn worker(&self, id: WorkerId) -> Option<&WorkerRow> {
        self.workers.get(&id).map(|record| &*record.row)
    }

    fn undo_from(&mut self, transaction: u64) {
        for table in self.journals() {
            table.undo_from(transaction);
        }
    }

    /// Without `..`, so that no table can be left out of transactions.
    fn journals(&mut self) -> [&mut dyn Journal; 28] {
        let Tables {
            commits: _,
            oldest: _,
            definitions,
            jobs,
            steps,
            attempts,
            events,
            outbox,
            idempotency,
            quarantine,
            lineage,
            logs,
            chunks,
            marks,
            beats,
            beat_history,
            workers,
            tokens,
            secrets,
            tasks,
            triggers,
            groups,
            servers,
            leases,
            hearing,
            breaker,
            meta,
            counters,
            doomed,
            departed,
        } = self;
        [
            definitions,
            jobs,
            steps,
            attempts,
            events,
            outbox,
            idempotency,
            quarantine,
            lineage,
            logs,
            chunks,
            marks,
            beats,
            beat_history,
            workers,
            tokens,
            secrets,
            tasks,
            triggers,
            groups,
            servers,
            leases,
            hearing,
            breaker,
            meta,
            counters,
            doomed,
            departed,
        ]
    }
}

pub(crate) fn refused(message: String) -> StoreError {
    StoreError::Refused { message }
}

/// Databases count with a sign: what is beyond that is refused here too.
pub(crate) fn countable(value: u64) -> Result<u64, StoreError> {
    match i64::try_from(value) {
        Ok(_) => Ok(value),
        Err(_) => Err(refused(format!("{value} is more than the database can count to"))),
    }
}
