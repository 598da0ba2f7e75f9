//! The shapes of storage: what a row holds, in words and numbers that outlive this build.

use std::time::Duration;

use engine::job::Parent;
use engine::{AttemptId, Clocks, Epoch, Fence, Heard, JobId, StepIx, Time, WorkerId};
use uuid::Uuid;

use crate::codec;

/// A task's text as it was submitted, stored once for all jobs that share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionRow {
    pub hash: [u8; 32],
    pub source: String,
    /// The server's defaults that applied (JSON), since they are part of what the job was submitted with.
    pub settings: String,
}

/// A job's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub id: JobId,
    /// The step of another job that began it.
    pub parent: Option<Parent>,
    /// The job on whose end it follows.
    pub hook_of: Option<JobId>,
    /// Its concurrency group, and when that had room for it.
    pub group: Option<String>,
    pub admitted_at: Option<Time>,
    /// Something of it was given up and may still run.
    pub strays: bool,
    pub version: u64,
    pub state: &'static str,
    pub task: String,
    pub definition: [u8; 32],
    pub input: String,
    pub priority: i32,
    pub submitted_by: String,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    /// Failed if it has not started by then.
    pub expires_at: Option<Time>,
    pub error_code: Option<&'static str>,
    pub error_message: Option<String>,
    pub error_step: Option<String>,
    pub owner: Option<&'static str>,
    pub check_at: Option<Time>,
    pub action: Option<&'static str>,
    /// The rest of the header, as [`crate::codec`] writes it (JSON).
    pub data: String,
}

/// A step. The columns are for queries and views; `data` holds all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    pub job: JobId,
    pub ix: StepIx,
    pub name: String,
    pub state: &'static str,
    pub owner: Option<&'static str>,
    pub check_at: Option<Time>,
    pub action: Option<&'static str>,
    /// The worker that holds it now, by offer or by attempt.
    pub worker: Option<WorkerId>,
    /// The attempt that is offered or live now.
    pub attempt: Option<AttemptId>,
    pub fence: Option<Fence>,
    pub dispatch_attempts: u32,
    pub error_code: Option<&'static str>,
    pub error_message: Option<String>,
    pub queued_at: Option<Time>,
    pub disconnected_at: Option<Time>,
    /// In hearing time; the view adds what was deaf.
    pub recovery_deadline: Option<Heard>,
    pub updated_at: Time,
    /// The set of files that it left, by its hash in hexadecimal digits.
    pub artifacts: Option<String>,
    pub data: String,
}

/// A granted attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRow {
    pub id: AttemptId,
    pub job: JobId,
    pub ix: StepIx,
    pub number: u32,
    pub fence: Fence,
    pub worker: WorkerId,
    pub epoch: Epoch,
    pub state: &'static str,
    pub confirmed: bool,
    pub started_at: Time,
    pub ended_at: Option<Time>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub error_code: Option<&'static str>,
    pub error_message: Option<String>,
    /// How long it ran, where its runner said so.
    pub duration_ms: Option<u64>,
    pub cpu_ms: u64,
    pub memory_bytes_max: u64,
    /// How its cleanup ended, as `codec::cleanup` reads it.
    pub cleanup: Option<String>,
}

/// A decision, for `_server` logs and live streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    pub job: JobId,
    pub ix: Option<StepIx>,
    pub at: Time,
    /// `step`, `offer`, `attempt`, `job`, `approved`, `cancel_asked`, `continued`, `hook`, `notice`.
    pub kind: &'static str,
    pub verb: Option<&'static str>,
    pub from: Option<&'static str>,
    pub to: Option<&'static str>,
    pub worker: Option<WorkerId>,
    pub reason: String,
}

/// Something to be delivered outside, at least once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    pub id: Uuid,
    pub job: JobId,
    pub kind: &'static str,
    pub body: String,
    pub created_at: Time,
}

/// A delivery goes on from where it was: nothing if the row has another number of tries by now, or arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxMove {
    pub id: Uuid,
    /// Tries so far, as they were read.
    pub expected: u32,
    pub tries: u32,
    /// When it is tried, or tried again; none once it is delivered or given up.
    pub next_at: Option<Time>,
    pub delivered_at: Option<Time>,
    /// Why the last try was none.
    pub error: Option<String>,
}

/// A submit that may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRow {
    pub key: String,
    /// The token that used it: keys of different users never meet.
    pub token: Uuid,
    pub request_hash: [u8; 32],
    pub job: JobId,
    pub created_at: Time,
}

/// The true end of an attempt that was given up before. The first one stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateOutcome {
    pub attempt: AttemptId,
    pub outcome: String,
    pub at: Time,
}

/// An event that could not be handled, with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineRow {
    pub job: Option<JobId>,
    pub at: Time,
    pub event: String,
    pub error: String,
}

/// Signs of life of one sender for one attempt, without a break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeatRow {
    pub attempt: AttemptId,
    pub sender: WorkerId,
    pub role: BeatRole,
    pub hostname: String,
    pub pid: u32,
    pub first_at: Time,
    pub last_at: Time,
    pub count: u64,
    pub longest_gap: Duration,
}

/// Who shows that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BeatRole {
    /// The worker, which has the attempt among what it holds.
    Claimer,
    /// The runner's own process.
    Runner,
}

impl BeatRole {
    pub fn word(self) -> &'static str {
        match self {
            BeatRole::Claimer => "claimer",
            BeatRole::Runner => "runner",
        }
    }

    pub fn from_word(word: &str) -> Option<BeatRole> {
        [BeatRole::Claimer, BeatRole::Runner].into_iter().find(|role| role.word() == word)
    }
}

/// A job with all that the engine needs to go on with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredJob {
    pub job: LoadedJob,
    pub steps: Vec<LoadedStep>,
    pub definition: DefinitionRow,
}

/// A job's row as it is read back: words are not trusted before [`crate::codec`] has seen them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedJob {
    pub id: JobId,
    pub parent: Option<Parent>,
    pub hook_of: Option<JobId>,
    pub group: Option<String>,
    pub version: u64,
    pub state: String,
    pub input: String,
    pub submitted_by: String,
    pub created_at: Time,
    pub check_at: Option<Time>,
    pub data: String,
}

impl LoadedJob {
    /// What is not over is looked at again.
    pub fn is_open(&self) -> bool {
        self.check_at.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedStep {
    pub ix: StepIx,
    pub state: String,
    pub check_at: Option<Time>,
    pub updated_at: Time,
    pub data: String,
}

/// A job that is not over, as somebody sees it who has nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenJob {
    pub id: JobId,
    /// A step of it waits for a worker, and was offered to none.
    pub has_queued: bool,
}

impl OpenJob {
    pub(crate) fn of(stored: &StoredJob) -> Option<OpenJob> {
        let has_queued = || stored.steps.iter().any(codec::may_be_offered);
        stored.job.is_open().then(|| OpenJob { id: stored.job.id, has_queued: has_queued() })
    }
}

/// One entry of the dispatcher's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedStep {
    pub job: JobId,
    pub ix: StepIx,
}

/// One start of a server; random, and never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub Uuid);

/// A server, as its siblings on the same database see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    pub id: ServerId,
    /// Counts the starts of this installation's servers.
    pub generation: u64,
    /// Where it is reached; for people.
    pub address: String,
    pub started_at: Time,
    /// Its last mark, and the same in hearing time.
    pub beat_at: Time,
    pub beat_heard: Heard,
    /// It said that it goes.
    pub left_at: Option<Time>,
}

/// When this installation last proved that it could hear, and how much of its time it could not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HearingRow {
    /// The last committed mark.
    pub mark_at: Time,
    pub deaf_us: i64,
    /// Since when it has heard without a break.
    pub stretch_from: Heard,
    /// Since when no stretch was long enough; none once one was.
    pub unsettled_since: Option<Heard>,
    pub verdicts_from: Heard,
    /// The word that it judges without a long stretch was given.
    pub alarmed: bool,
}

impl HearingRow {
    /// Both clocks at `now`.
    pub fn clocks(&self, now: Time) -> Clocks {
        Clocks { now, heard: Heard(now.0.saturating_sub(self.deaf_us)), verdicts_from: self.verdicts_from }
    }

    /// As of the last mark.
    pub fn heard(&self) -> Heard {
        self.clocks(self.mark_at).heard
    }
}

/// The newest time that most workers were lost at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRow {
    pub tripped_at: Time,
    pub lost: u32,
    /// How many were connected before.
    pub connected: u32,
    pub ended_at: Option<Time>,
}

/// What a worker says of itself when it connects, and the epoch that its link gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerHello {
    pub id: WorkerId,
    /// Above all that the worker had.
    pub epoch: Epoch,
    pub name: String,
    pub tags: Vec<String>,
    pub slots: u32,
    pub kind: &'static str,
    pub session: Uuid,
    pub boot_id: String,
    pub state_id: Uuid,
    pub machine: String,
    pub version: String,
    pub platform: String,
    pub hostname: String,
    pub pid: u32,
    pub started_at: Time,
    pub no_reconnect: bool,
    /// The server that has its link.
    pub server: ServerId,
    /// It wants no new work.
    pub unwilling: bool,
    /// What it can do that older ones could not.
    pub features: Vec<String>,
    /// It could not read all that it has, and may have more than it said.
    pub unread: bool,
    /// The last loss of commits that its server knew of when it let it in.
    pub after_loss: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorker {
    pub id: WorkerId,
    pub name: String,
    pub credential_hash: [u8; 32],
    pub state_id: Uuid,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRow {
    pub id: WorkerId,
    pub name: String,
    pub epoch: Epoch,
    /// The highest one that it has said something on after its hello.
    pub used_epoch: Epoch,
    pub draining: bool,
    pub kind: String,
    pub tags: Vec<String>,
    pub slots: u32,
    pub session: Option<Uuid>,
    pub boot_id: String,
    pub state_id: Uuid,
    pub machine: String,
    pub version: String,
    pub platform: String,
    pub hostname: String,
    pub pid: u32,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub last_seen_at: Option<Time>,
    /// When its last link was lost, in hearing time; none while it is connected.
    pub left_heard: Option<Heard>,
    pub removed_at: Option<Time>,
    /// It may have no other tags than these, which came with its enroll token; none: any.
    pub allowed_tags: Vec<String>,
    /// The server that has its link, or had its last one.
    pub server: Option<ServerId>,
    /// It wants no new work itself.
    pub unwilling: bool,
    /// What it can do that older ones could not.
    pub features: Vec<String>,
    /// It could not read all that it has when it last came.
    pub unread: bool,
    /// The last loss of commits that its server knew of then: by that it was asked for all that it keeps.
    pub after_loss: Option<u64>,
}

/// What an operator says of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetChange {
    /// Whether it is to get no new work.
    Drain { worker: WorkerId, on: bool },
    /// It no longer belongs to the fleet. Its row stays, for history and for its credential.
    Remove { worker: WorkerId, at: Time },
}

/// A job that goes on where another one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineageRow {
    /// The new job.
    pub job: JobId,
    pub continues: JobId,
    /// The first job of the family: the one that continues none.
    pub root: JobId,
    /// Its place among all that go on for that one, from 1. Whoever makes one has seen those before it: two who make
    /// the same one at the same time are in conflict.
    pub number: u32,
    /// It stands in for the old one; no other job can.
    pub resolves: bool,
    /// `retry`, `from_failed`, or how a step was resolved.
    pub how: &'static str,
    pub by: String,
    pub at: Time,
}

/// A token; only its hash is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    pub id: Uuid,
    /// `api` or `enroll`.
    pub kind: String,
    pub role: String,
    pub name: String,
    pub hash: [u8; 32],
    pub tags: Vec<String>,
    pub uses_left: Option<u32>,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
}

/// A secret, as the server sealed it: nobody can read it without the server's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRow {
    pub name: String,
    pub sealed: Vec<u8>,
    pub set_at: Time,
    pub set_by: String,
}

/// A task that was pushed, not read from the task folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    pub name: String,
    pub source: String,
    pub pushed_at: Time,
    pub pushed_by: String,
}

/// What starts jobs by itself, and where it stands. What it says is the task's; what became of it is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerRow {
    /// Of the task, the kind and the place or name: the same on every server, whatever else about it changes.
    pub id: String,
    pub version: u64,
    pub task: String,
    /// `cron` or `webhook`.
    pub kind: String,
    /// What it says, as the server writes it (JSON).
    pub definition: String,
    pub paused_at: Option<Time>,
    pub paused_by: Option<String>,
    /// The time for which it comes next, by its clock alone. It stays while the trigger is paused.
    pub planned_at: Option<Time>,
    /// When it is looked at next; none while nothing is to come.
    pub next_at: Option<Time>,
    /// When it last made a job, and which.
    pub last_at: Option<Time>,
    pub last_job: Option<JobId>,
    /// Why its last time came to nothing; none if it did not.
    pub last_error: Option<String>,
    /// Times that passed without a job of their own.
    pub missed: u64,
    /// The last notice that times passed without a job, in words, and when it was given.
    pub notice: Option<String>,
    pub notice_at: Option<Time>,
}
