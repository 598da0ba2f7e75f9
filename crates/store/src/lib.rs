//! What the ledger needs of a database, in coarse strokes, and one conformance suite for all that offer it.
//!
//! * [`Store`] is the writer: one per server, owned by the ledger's thread. One [`Batch`] is one transaction.
//! * [`Reader`] looks, beside the writer, for the API and the command line.
//! * [`rows`] are the shapes of storage; [`codec`] turns them into the engine's types and back.
//! * [`plan`], [`append`] and [`prefix`] are decisions that every store makes alike; [`ahead`] is what is asked before one.
//! * [`retention`] is about what goes, [`lease`] about what one server at a time does.
//! * [`check`] is what must hold of every database, [`copy`] how all of one comes into another.
//!
//! A job's state has one way into the database: [`Store::commit`], fed by [`codec`] from `engine::Changes`.

pub mod batch;
pub mod codec;
pub mod read;
pub mod rows;

pub mod ahead;
pub mod append;
pub mod check;
pub mod copy;
pub mod lease;
pub mod plan;
pub mod prefix;
pub mod retention;

pub mod conformance;

use engine::{AttemptId, JobId, StepIx, Time, WorkerId};

use rows::OpenJob;

pub use ahead::{Found, Record, Wanted};
pub use batch::{
    Admission, Batch, Beats, Committed, JobWrite, LogAppend, LogClose, LogDeadline, LogMark, Mark, TriggerWrite,
};
pub use lease::{Claim, Lease, LeaseRow, Tenure};
pub use read::{JobFilter, Page, Reader};
pub use retention::{Cleared, OldJob, OldLog, Piece, Strays};

/// The writer's side of a database. Synchronous: the ledger's thread runs it inline, and so does a simulation.
pub trait Store: Send {
    /// Writes all of the batch in one transaction, durably, or nothing of it.
    ///
    /// A job whose version moved is left out with everything of the batch that belongs to it, and named in the answer.
    /// A hello whose epoch is not above the row's, or a lease that is somebody else's by now, makes it
    /// [`StoreError::Moved`].
    fn commit(&mut self, batch: &Batch) -> Result<Committed, StoreError>;

    fn load_job(&mut self, id: JobId) -> Result<Option<rows::StoredJob>, StoreError>;

    /// Those of these jobs that are on record, in any order, all of them as they were at one moment. One that cannot be understood
    /// is left out: whoever asks for it alone is told why.
    fn load_jobs(&mut self, ids: &[JobId]) -> Result<Vec<rows::StoredJob>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            match self.load_job(*id) {
                Ok(job) => found.extend(job),
                Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Those of these jobs that are on record and not over; also one that cannot be understood.
    fn open_among(&mut self, ids: &[JobId]) -> Result<Vec<OpenJob>, StoreError> {
        let mut open = Vec::new();
        for id in ids.iter().copied() {
            match self.load_job(id) {
                Ok(stored) => open.extend(stored.as_ref().and_then(OpenJob::of)),
                Err(StoreError::Corrupt(_)) => open.push(OpenJob { id, has_queued: true }),
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }

    /// The job and step that this attempt, granted or only offered, belongs to.
    fn place_of(&mut self, attempt: AttemptId) -> Result<Option<(JobId, StepIx)>, StoreError>;

    /// All that is wanted before a round is decided, as it is on record.
    fn look_ahead(&mut self, wanted: &Wanted) -> Result<Found, StoreError> {
        ahead::one_by_one(self, wanted)
    }

    /// The jobs that are not over and may belong to this one's family, itself among them.
    fn open_kin(&mut self, job: JobId, limit: usize) -> Result<Vec<JobId>, StoreError>;

    /// Jobs and steps whose check time has come, the earliest first.
    fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Due>, StoreError>;

    /// Logs of attempts that are over, whose own time is over too and who are not whole, the earliest first.
    fn due_logs(&mut self, now: Time, limit: usize) -> Result<Vec<DueLog>, StoreError>;

    /// Triggers whose time has come, the earliest first.
    fn due_triggers(&mut self, now: Time, limit: usize) -> Result<Vec<rows::TriggerRow>, StoreError>;

    /// What is to be delivered by now, the earliest first.
    fn due_outbox(&mut self, now: Time, limit: usize) -> Result<Vec<read::OutboxView>, StoreError>;

    /// When the next delivery is due.
    fn next_outbox(&mut self) -> Result<Option<Time>, StoreError>;

    /// The earliest check time of all jobs, steps, logs and triggers.
    fn next_check(&mut self) -> Result<Option<Time>, StoreError>;

    /// Every queued step without an offer, to fill the dispatcher's queue when a server starts.
    fn queued(&mut self) -> Result<Vec<rows::QueuedStep>, StoreError>;

    /// Every step that some worker holds now: offered, running, recovering or cancelling.
    fn held(&mut self) -> Result<Vec<(JobId, StepIx)>, StoreError>;

    /// The same, with what a sweep wants to know.
    fn held_steps(&mut self) -> Result<Vec<HeldStep>, StoreError>;

    /// Sets aside a block of fences above all that were ever given and not below `floor`; returns its first.
    fn reserve_fences(&mut self, count: u64, floor: u64) -> Result<u64, StoreError>;

    /// Whether other servers may write to this database at the same time.
    fn is_shared(&self) -> bool;

    /// The clock that all who share this database have in common; none: each server goes by its own machine's.
    fn clock(&mut self) -> Result<Option<Time>, StoreError> {
        Ok(None)
    }

    /// How servers on this database wake each other; none where there is only one, or where each has to look by itself.
    fn bell(&self) -> Option<std::sync::Arc<dyn Bell>> {
        None
    }

    /// Puts a server that starts among the others, with the next generation, which is returned. Those without a mark
    /// since `stale_before` are deleted.
    fn register_server(&mut self, server: &rows::ServerRow, stale_before: Time) -> Result<u64, StoreError>;

    /// What events with numbers above `after` are about, in their order, at most `limit`: what any server has changed.
    ///
    /// Whoever goes on from the last number misses nothing: a store in which a lower number can become visible after a
    /// higher one holds the higher one back until then. Numbers may come twice.
    fn changed_since(&mut self, after: u64, limit: usize) -> Result<Vec<(u64, JobId)>, StoreError>;

    fn worker(&mut self, id: WorkerId) -> Result<Option<rows::WorkerRow>, StoreError>;

    /// Deletes signs of life that ended before `before`, at most `limit` of each kind; returns how many.
    ///
    /// This and all that deletes what is old is done `under` a lease, and is [`StoreError::Moved`] where that is somebody
    /// else's by now. None: nobody else has the database.
    fn prune_beats(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError>;

    /// Takes jobs that are over off the record, as long as they have these versions; returns those that went. What is left of
    /// them is for [`Store::clear_doomed`]. The numbers of their events never return.
    fn doom(&mut self, jobs: &[(JobId, u64)], now: Time, under: Option<Tenure>) -> Result<Vec<JobId>, StoreError>;

    /// Takes away a piece of what is left of doomed jobs.
    fn clear_doomed(&mut self, piece: Piece, under: Option<Tenure>) -> Result<Cleared, StoreError>;

    /// Takes away lines of an attempt's log, and leaves a word in their place; nothing if lines are still waited for. One
    /// of an attempt that nobody knows goes without a word.
    fn drop_log(
        &mut self,
        attempt: AttemptId,
        now: Time,
        piece: Piece,
        under: Option<Tenure>,
    ) -> Result<Cleared, StoreError>;

    /// Deletes definitions that no job has, among the `limit` that come after this hash. Returns how many, and where to go
    /// on, if there are more.
    fn prune_definitions(
        &mut self,
        after: Option<[u8; 32]>,
        limit: usize,
        under: Option<Tenure>,
    ) -> Result<(usize, Option<[u8; 32]>), StoreError>;

    /// Deletes what belongs to no job on record and is from before then, at most `limit` of each kind: words to the outside
    /// that were delivered or given up, in the order of their jobs, and events that were set aside.
    fn drop_strays(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<Strays, StoreError>;

    /// Deletes a worker that was not seen since then, and has nothing that may still run; returns whether it did. That
    /// there was one, and its credential, stays known to [`Reader::departed`].
    fn depart(
        &mut self,
        worker: WorkerId,
        unseen_since: Time,
        now: Time,
        under: Option<Tenure>,
    ) -> Result<bool, StoreError>;

    /// Forgets concurrency groups to which nobody was admitted since `before` and that have no open jobs, at most `limit`, those
    /// that are idle for longest first; returns how many.
    fn prune_groups(&mut self, before: Time, limit: usize, under: Option<Tenure>) -> Result<usize, StoreError>;

    fn put_token(&mut self, token: &rows::TokenRow) -> Result<(), StoreError>;

    /// Returns whether there was such a token that was not revoked yet.
    fn revoke_token(&mut self, id: uuid::Uuid, now: Time) -> Result<bool, StoreError>;

    /// Spends one use of an enroll token and creates the worker, together or not at all.
    fn enroll(&mut self, token_hash: &[u8; 32], worker: &rows::NewWorker, now: Time) -> Result<Enrolled, StoreError>;

    /// Takes the place of one of the same name.
    fn put_secret(&mut self, secret: &rows::SecretRow) -> Result<(), StoreError>;

    /// Returns whether there was one.
    fn remove_secret(&mut self, name: &str) -> Result<bool, StoreError>;

    fn put_task(&mut self, task: &rows::TaskRow) -> Result<(), StoreError>;

    fn set_meta(&mut self, key: &str, value: &str) -> Result<(), StoreError>;

    /// A reader of the same database, to be used from any thread.
    fn reader(&self) -> std::sync::Arc<dyn Reader>;
}

/// Tells other servers on the same database that there is something to see. Only a hint: whoever misses it looks by itself a moment
/// later.
pub trait Bell: Send + Sync {
    /// Never waits. Many in a row are one.
    fn ring(&self);

    /// `heard` is called, on a thread of the store's, whenever another server has rung, or may have while nobody could hear it.
    fn listen(&self, heard: Box<dyn Fn() + Send + Sync>);
}

/// Something whose check time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    pub at: Time,
    pub job: JobId,
    /// None: the job itself.
    pub step: Option<StepIx>,
    /// The step waits for a worker.
    pub queued: bool,
}

/// A step that a worker holds, by offer or by attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldStep {
    pub job: JobId,
    pub ix: StepIx,
    pub state: String,
    /// An operator was asked what is to become of it.
    pub for_operator: bool,
    pub worker: WorkerId,
    pub attempt: AttemptId,
    /// When its row was last written.
    pub since: Time,
}

/// A log that is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueLog {
    pub attempt: AttemptId,
    pub last_seq: u64,
    /// The attempt's last line, where it is known.
    pub end_seq: Option<u64>,
    /// Who has, or had, the attempt.
    pub worker: Option<WorkerId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enrolled {
    Yes,
    /// No such token, or it is of another kind, used up, expired or revoked.
    Refused,
}

/// What bringing a schema up to date came to. Versions count from 1; 0 is an empty database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    pub from: u32,
    /// The same if there was nothing to do.
    pub to: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database said no for reasons that may pass (busy, away, full).
    #[error("the database is not available: {message}")]
    Unavailable { message: String },
    /// What the batch builds on is not there any more: another server was faster. It is to be decided anew.
    #[error("another server was faster: {message}")]
    Moved { message: String },
    /// One statement of a batch cannot be carried out, whatever is tried.
    #[error("the database refused the data: {message}")]
    Refused { message: String },
    #[error(
        "the database at {path} was made by a newer Bowline: it needs version {needs} or later of the schema, this build knows {knows}; use a newer build"
    )]
    TooNew { path: String, needs: u32, knows: u32 },
    #[error("the database at {path} is damaged: {message}; restore a backup, or move the file away to start empty")]
    Damaged { path: String, message: String },
    /// Two servers on one file would each believe that they alone decide.
    #[error("the database at {path} is in use by another server{}; stop that one first, or use another data folder", .holder.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    InUse { path: String, holder: Option<u32> },
    #[error(
        "migration {version} of the database at {path} is not the one that this build knows; it was changed after it ran"
    )]
    MigrationChanged { path: String, version: u32 },
    #[error("a stored row cannot be understood: {0}")]
    Corrupt(#[from] codec::Corrupt),
}

/// Words by which stores tell apart, in what an [`StoreError::Unavailable`] says, why nothing can be written. Who sees them need not
/// know where the database is.
pub const NO_ROOM: &str = "it has no room left";
pub const TOO_OLD: &str = "this server is too old for it";
pub const SLOW: &str = "it does not answer in time";
const AWAY: &str = "it is away";

impl StoreError {
    /// Why a database does not do what it should, without its name, its address, or anybody's: for whoever may not know more.
    pub fn in_short(&self) -> &'static str {
        match self {
            StoreError::Unavailable { message } => {
                [NO_ROOM, TOO_OLD, SLOW].into_iter().find(|words| message.contains(words)).unwrap_or(AWAY)
            }
            StoreError::TooNew { .. } => TOO_OLD,
            StoreError::InUse { .. } => "another server has it",
            StoreError::Moved { .. } => "another server was faster",
            StoreError::Refused { .. } => "it refuses what is written",
            StoreError::Damaged { .. } | StoreError::MigrationChanged { .. } | StoreError::Corrupt(_) => {
                "it is damaged"
            }
        }
    }
}
