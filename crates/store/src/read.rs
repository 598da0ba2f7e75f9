//! Looking at what is stored, beside the writer.

use std::sync::Arc;

use engine::job::Parent;
use engine::{AttemptId, JobId, StepIx, Time, WorkerId};
use uuid::Uuid;

use crate::StoreError;
use crate::lease::LeaseRow;
use crate::retention::{Cleared, OldJob, OldLog, Strays};
use crate::rows::{
    BeatRow, BreakerRow, HearingRow, IdempotencyRow, SecretRow, ServerRow, StoredJob, TaskRow, TokenRow, TriggerRow,
    WorkerRow,
};

/// Everything that is read for people and programs. Safe to call from many threads at once.
pub trait Reader: Send + Sync {
    fn job(&self, id: JobId) -> Result<Option<StoredJob>, StoreError>;

    /// Job ids (lower-case, with hyphens) that begin with `prefix`, at most `limit` of them; those that nobody began first.
    fn jobs_by_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<JobId>, StoreError>;

    fn last_job(&self) -> Result<Option<JobId>, StoreError>;

    /// The newest first.
    fn jobs(&self, filter: &JobFilter) -> Result<Page<JobSummary>, StoreError>;

    fn attempts(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError>;

    /// Which job this one continues, and which one stands in for it.
    fn lineage(&self, job: JobId) -> Result<Lineage, StoreError>;

    /// The jobs that go on, directly or not, for the same first job as this one does, or for this one; at most `limit`.
    fn family(&self, job: JobId, limit: usize) -> Result<Family, StoreError>;

    /// The jobs that steps of this one began, the oldest first, at most `limit`.
    fn children(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError>;

    /// The jobs that followed on this one's end, the oldest first, at most `limit`.
    fn hooks(&self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError>;

    /// The words that were to be sent on this job's end, the oldest first, at most `limit`.
    fn outbox_of(&self, job: JobId, limit: usize) -> Result<Vec<OutboxView>, StoreError>;

    /// Those that were given up, the newest first, at most `limit`.
    fn dead_outbox(&self, limit: usize) -> Result<Vec<OutboxView>, StoreError>;

    fn outbox(&self, id: Uuid) -> Result<Option<OutboxView>, StoreError>;

    fn outbox_counts(&self) -> Result<OutboxCounts, StoreError>;

    /// The jobs that have been admitted to this concurrency group and may not be over: those that are open, and those that
    /// ended after `ended_after` and left something that may still run. In the order of their ids.
    fn slots(&self, group: &str, ended_after: Time) -> Result<Vec<SlotView>, StoreError>;

    /// The jobs that wait for this concurrency group, in the order of service, at most `limit`.
    fn line(&self, group: &str, limit: usize) -> Result<Vec<LineView>, StoreError>;

    /// The concurrency groups that jobs wait for, by name, after this name, at most `limit`.
    fn lines(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;

    /// The jobs with a concurrency group that ended after `ended_after` and left something that may still run.
    fn stray_slots(&self, ended_after: Time) -> Result<Vec<(String, JobId)>, StoreError>;

    /// The concurrency groups that have open jobs, by name, after this name, at most `limit`.
    fn groups(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;

    /// The job that was last admitted to this concurrency group: the mark by which two who admit at once are told apart.
    fn last_admitted(&self, group: &str) -> Result<Option<JobId>, StoreError>;

    /// The job's attempts that were given up without proof that they are over.
    fn unconfirmed(&self, job: JobId) -> Result<Vec<AttemptView>, StoreError>;

    /// Which of these sets of files (hashes in hexadecimal digits) a step has left, or an end that came late has brought.
    fn wanted_artifacts(&self, sets: &[String]) -> Result<Vec<String>, StoreError>;

    /// The hash of the definition that the job was submitted with.
    fn definition_of(&self, job: JobId) -> Result<Option<[u8; 32]>, StoreError>;

    /// A granted attempt, by its id alone.
    fn attempt(&self, id: AttemptId) -> Result<Option<AttemptGlance>, StoreError>;

    /// One step of a job, whatever the number of the others.
    fn step(&self, job: JobId, ix: StepIx) -> Result<Option<StepGlance>, StoreError>;

    /// The place of a job's step of this name; items of fan-outs have one each.
    fn step_named(&self, job: JobId, name: &str) -> Result<Option<StepIx>, StoreError>;

    /// Events after `after`, the oldest first; of one job, or of all.
    fn events(&self, job: Option<JobId>, after: u64, limit: usize) -> Result<Vec<EventView>, StoreError>;

    fn last_event(&self) -> Result<u64, StoreError>;

    fn log_state(&self, attempt: AttemptId) -> Result<LogState, StoreError>;

    /// The same for many at once, in their order.
    fn log_states(&self, attempts: &[AttemptId]) -> Result<Vec<LogState>, StoreError>;

    /// Stored chunks that hold lines from `from_seq` on, in order; at least one if there is any, then up to `bytes_max`.
    fn log_chunks(&self, attempt: AttemptId, from_seq: u64, bytes_max: usize) -> Result<Vec<LogChunk>, StoreError>;

    /// The server's own lines that stand after the lines `from_seq` to `to_seq`, in order, at most `limit` of them.
    fn log_marks(
        &self,
        attempt: AttemptId,
        from_seq: u64,
        to_seq: u64,
        limit: usize,
    ) -> Result<Vec<LogMarkView>, StoreError>;

    /// The newest signs of life of one attempt.
    fn beats(&self, attempt: AttemptId) -> Result<Vec<BeatRow>, StoreError>;

    /// What workers hold without a sign of life since `before`, the longest silent first, at most `limit` of them.
    fn stale(&self, before: Time, limit: usize) -> Result<Vec<StaleAttempt>, StoreError>;

    /// The newest time that most workers were lost at once, if ever.
    fn breaker(&self) -> Result<Option<BreakerRow>, StoreError>;

    /// None before the first mark.
    fn hearing(&self) -> Result<Option<HearingRow>, StoreError>;

    /// Every server that was here of late, the oldest start first.
    fn servers(&self) -> Result<Vec<ServerRow>, StoreError>;

    /// Every lease that somebody ever had, by its name.
    fn leases(&self) -> Result<Vec<LeaseRow>, StoreError>;

    /// By name. Servers that share a database read all of them with every mark: a store that has rows in memory shares them.
    fn workers(&self) -> Result<Vec<Arc<WorkerRow>>, StoreError>;

    fn worker_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerRow>, StoreError>;

    fn tokens(&self) -> Result<Vec<TokenRow>, StoreError>;

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError>;

    fn idempotency(&self, token: Uuid, key: &str) -> Result<Option<IdempotencyRow>, StoreError>;

    /// By name, sealed as they are.
    fn secrets(&self) -> Result<Vec<SecretRow>, StoreError>;

    fn secret(&self, name: &str) -> Result<Option<SecretRow>, StoreError>;

    fn tasks(&self) -> Result<Vec<TaskRow>, StoreError>;

    /// When each was pushed, by name: whether there is anything new, without the texts.
    fn task_stamps(&self) -> Result<Vec<(String, Time)>, StoreError>;

    fn trigger(&self, id: &str) -> Result<Option<TriggerRow>, StoreError>;

    /// By id.
    fn triggers(&self) -> Result<Vec<TriggerRow>, StoreError>;

    fn meta(&self, key: &str) -> Result<Option<String>, StoreError>;

    /// Jobs with ids after `after` and below `until`, in their order: members of a family stand together.
    fn old_jobs(&self, after: Option<JobId>, until: JobId, limit: usize) -> Result<Vec<OldJob>, StoreError>;

    /// The same for logs that have lines.
    fn old_logs(&self, after: Option<AttemptId>, until: AttemptId, limit: usize) -> Result<Vec<OldLog>, StoreError>;

    /// What would go with a job.
    fn weight(&self, job: JobId) -> Result<Cleared, StoreError>;

    /// What [`Store::drop_strays`](crate::Store::drop_strays) would delete now, without a limit.
    fn strays(&self, before: Time) -> Result<Strays, StoreError>;

    /// When a worker was deleted for not having been seen, if it was.
    fn departed(&self, worker: WorkerId) -> Result<Option<Time>, StoreError>;

    /// The worker whose credential this was.
    fn departed_by_credential(&self, hash: &[u8; 32]) -> Result<Option<WorkerId>, StoreError>;

    /// How many jobs there are in each state, as `(state, count)`.
    fn job_counts(&self) -> Result<Vec<(String, u64)>, StoreError>;
}

#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    pub state: Option<String>,
    pub task: Option<String>,
    pub limit: usize,
    /// Only jobs older than this one.
    pub before: Option<JobId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// There are more after the last item.
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSummary {
    pub id: JobId,
    pub task: String,
    pub state: String,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub error_step: Option<String>,
    pub submitted_by: String,
    /// The step of another job that began it.
    pub parent: Option<Parent>,
    /// The job on whose end it follows.
    pub hook_of: Option<JobId>,
    /// Its concurrency group.
    pub group: Option<String>,
    /// It waits for that.
    pub in_line: bool,
}

/// A job that may have a slot of its concurrency group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotView {
    pub job: JobId,
    pub created_at: Time,
    /// None: it is open.
    pub ended_at: Option<Time>,
    /// It is being cancelled.
    pub cancelling: bool,
}

/// A job that waits for its concurrency group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineView {
    pub job: JobId,
    pub priority: i32,
    pub created_at: Time,
}

/// Something to be delivered outside, and how far that got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxView {
    pub id: Uuid,
    pub job: JobId,
    pub kind: String,
    pub body: String,
    pub created_at: Time,
    pub tries: u32,
    /// None once it is delivered or given up.
    pub next_at: Option<Time>,
    pub delivered_at: Option<Time>,
    pub error: Option<String>,
}

/// Words to the outside that were not delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxCounts {
    /// They are tried, or will be.
    pub waiting: u64,
    /// They were given up.
    pub dead: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lineage {
    pub continues: Option<JobId>,
    pub resolved_by: Option<JobId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    pub root: JobId,
    /// The newest first.
    pub members: Vec<Kin>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kin {
    pub job: JobId,
    pub continues: JobId,
    pub number: u32,
    pub how: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepGlance {
    pub state: String,
    /// Ids and numbers, the oldest first.
    pub attempts: Vec<(AttemptId, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptGlance {
    pub number: u32,
    pub confirmed: bool,
    /// Its own word on its end is on record, be it as late outcome.
    pub reported: bool,
    /// Its worker said once that its process runs.
    pub begun: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AttemptView {
    pub id: AttemptId,
    pub ix: StepIx,
    pub number: u32,
    pub fence: u64,
    pub worker: WorkerId,
    pub worker_name: Option<String>,
    pub state: String,
    pub confirmed: bool,
    pub started_at: Time,
    pub ended_at: Option<Time>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub late_outcome: Option<String>,
    /// How long it ran, where its runner said so.
    pub duration_ms: Option<u64>,
    pub cpu_ms: u64,
    pub memory_bytes_max: u64,
    /// How its cleanup ended, as `codec::cleanup` reads it.
    pub cleanup: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventView {
    pub id: u64,
    pub job: JobId,
    pub ix: Option<StepIx>,
    /// The step's name.
    pub step: Option<String>,
    pub at: Time,
    pub kind: String,
    pub verb: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub worker: Option<WorkerId>,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogState {
    pub last_seq: u64,
    /// Nothing more is waited for.
    pub complete: bool,
    /// `complete` only because its time was over: there may be more lines, somewhere.
    pub closed: bool,
    /// Lines right after `last_seq` that a mark says are gone.
    pub announced: u64,
    /// The number of its last line, where the attempt's end was reported before its log was whole.
    pub end_seq: Option<u64>,
}

/// A line that the server put into a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMarkView {
    pub after_seq: u64,
    pub sub: u32,
    pub at: Time,
    pub missing: u64,
    /// The end of a log that was closed without its last lines.
    pub closing: bool,
    pub text: String,
}

/// An attempt, granted or only offered, that nothing was heard of for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleAttempt {
    pub job: JobId,
    pub ix: StepIx,
    pub step: String,
    /// The step's state; `queued` where the attempt is only offered.
    pub state: String,
    pub attempt: AttemptId,
    pub worker: WorkerId,
    pub worker_name: Option<String>,
    pub hostname: String,
    pub claimer_at: Option<Time>,
    pub runner_at: Option<Time>,
    /// The last sign of life: the runner's, else the worker's, else the step's own last change.
    pub last_sign: Time,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    pub first_seq: u64,
    pub last_seq: u64,
    pub blocks: Vec<u8>,
}
