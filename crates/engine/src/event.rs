//! What comes into the engine, and what goes out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::apply::Resolve;
use crate::attempt::{Attempt, Loss, Report};
use crate::definition::{ChildTask, Occasion, Outside};
use crate::failure::Failure;
use crate::ids::{AttemptId, Epoch, Fence, JobId, StepIx, WorkerId};
use crate::job::{Header, JobState, Parent, Step, Unborn, Unlisted};
use crate::notice::Notice;
use crate::state::{Offer, StateName, StopCause, StopMode};
use crate::table::{Illegal, Verb};
use crate::time::{Heard, Time};

/// Names a step's attempt in every event about it. A ticket that is not the step's current one is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub step: StepIx,
    pub attempt: AttemptId,
    pub fence: Fence,
}

/// Something that happened, or that someone wants, for one job.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The dispatcher found a worker for a queued step.
    Offer {
        ticket: Ticket,
        worker: WorkerId,
        epoch: Epoch,
    },
    /// The worker cannot take it now; costs the step nothing.
    Refused {
        ticket: Ticket,
        reason: String,
    },
    /// The worker that holds the offer is gone; nothing can have started.
    OfferLost {
        ticket: Ticket,
        epoch: Epoch,
    },
    /// The worker asks for leave to start.
    Accepted {
        ticket: Ticket,
        epoch: Epoch,
    },
    /// The worker asked for leave to start, and a secret of the step cannot be had. `why` names it.
    SecretMissing {
        ticket: Ticket,
        epoch: Epoch,
        why: String,
    },
    /// The attempt ended, and says how.
    Ended {
        ticket: Ticket,
        report: Report,
    },
    /// The worker's link is gone.
    LinkLost {
        ticket: Ticket,
        epoch: Epoch,
    },
    /// The worker's link went with the server that had it, which was last heard then.
    ServerLost {
        ticket: Ticket,
        epoch: Epoch,
        since: Heard,
    },
    /// The worker is back on a new link and still has it.
    Reattached {
        ticket: Ticket,
        epoch: Epoch,
    },
    /// A worker has an attempt of this step that is not on record, and that had leave to start: commits were lost.
    Adopted {
        ticket: Ticket,
        worker: WorkerId,
        epoch: Epoch,
    },
    /// The same, of an item whose list is not on record either.
    Unlisted {
        of: StepIx,
        unlisted: Unlisted,
    },
    /// The same, of a child job that is not on record: this one may begin it again, or begin who does.
    Unborn(Unborn),
    /// The attempt is certainly over, without a result. `epoch`: the link on which that was seen.
    Gone {
        ticket: Ticket,
        epoch: Epoch,
        loss: Loss,
    },
    /// For so long nothing was heard of the worker that holds the offer, or of the runner of a running attempt. `by`: who
    /// wants it given up for that; none where the server only saw it.
    FellSilent {
        ticket: Ticket,
        silent: Duration,
        by: Option<String>,
    },
    /// It was heard again, after an operator was asked about its silence.
    HeardAgain {
        ticket: Ticket,
    },
    /// The worker's link is gone, and it will not come back for its attempts.
    NoReturn {
        ticket: Ticket,
        epoch: Epoch,
        why: NoReturn,
    },
    /// The loss of the worker's link may be our own fault: it is waited for longer.
    MoreTime {
        ticket: Ticket,
        epoch: Epoch,
        reason: String,
    },
    /// An operator took the worker out of the fleet. That is no proof that the attempt is over.
    WorkerRemoved {
        ticket: Ticket,
        by: String,
    },
    /// A person settles a step whose worker is cut off.
    Resolve(Resolve),
    /// No worker could run this queued step for all of its patience.
    Unmatched {
        step: StepIx,
        missing: String,
    },
    /// The job's concurrency group has room for it.
    Admit {
        reason: String,
    },
    /// There will be none for it.
    TurnAway(Failure),
    /// A person, or the API, wants the job to end.
    Cancel {
        by: String,
        force: bool,
    },
    /// A person's yes. The comment may be empty.
    Approve {
        step: StepIx,
        by: String,
        comment: String,
    },
    Reject {
        step: StepIx,
        by: String,
        reason: String,
    },
    /// The job that does what a step is to do is over.
    ChildEnded {
        step: StepIx,
        child: JobId,
        end: ChildEnd,
        /// Something of it may still run.
        strays: bool,
    },
    /// The job that does what a step is to do waits for a person, or does not any more.
    ChildHeld {
        step: StepIx,
        child: JobId,
        held: bool,
    },
    /// The job that does what a step is to do is not on record.
    ChildMissing {
        step: StepIx,
        child: JobId,
    },
    /// The database was put back to an earlier state, says an operator: whatever happened since is not on record. Each such word
    /// has a time of its own, and counts once.
    Restored {
        at: Time,
    },
    /// The step's check time has come.
    Check {
        step: StepIx,
    },
    /// The job's check time has come.
    CheckJob,
    /// An event about this step could not be handled for reasons of ours.
    Poisoned {
        step: Option<StepIx>,
        message: String,
    },
}

/// How a child job ended, as far as its parent is concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildEnd {
    /// With what its steps wrote, by their names.
    Success {
        output: Value,
    },
    Failed(Failure),
    Cancelled(Failure),
}

/// What follows for a job that a step began. It stands or falls with the change that it follows from.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildOrder {
    Begin(Birth),
    /// Nobody wants it any more.
    CallOff {
        child: JobId,
        by: String,
        force: bool,
    },
}

/// What follows on a job's end, or on a notice. It stands or falls with that.
#[derive(Debug, Clone, PartialEq)]
pub enum HookOrder {
    Begin(Birth),
    /// A word to somebody outside; its id is the same whenever it is decided.
    Tell {
        id: JobId,
        on: Occasion,
        to: Outside,
        /// What it is about, where it is not the end.
        notice: Option<Notice>,
    },
}

/// A job that another one begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Birth {
    pub id: JobId,
    /// The step that waits for it.
    pub parent: Option<Parent>,
    /// The job on whose end it, or the job that began it, follows.
    pub hook_of: Option<JobId>,
    pub task: Arc<ChildTask>,
    pub input: Arc<Value>,
    /// Its concurrency group.
    pub group: Option<Arc<str>>,
    /// Who wanted the job that begins it.
    pub submitted_by: Arc<str>,
}

/// Everything that one event changes. The ledger saves it in one transaction, then performs the effects.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    pub header: Header,
    pub steps: Vec<(StepIx, Step)>,
    pub attempts: Vec<Attempt>,
    pub notes: Vec<Note>,
    pub children: Vec<ChildOrder>,
    pub hooks: Vec<HookOrder>,
    /// What people should know of, and what the hooks of the task were given to carry.
    pub notices: Vec<Notice>,
    pub effects: Vec<Effect>,
}

/// A decision, for people and for the live stream: what, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    pub at: Time,
    pub about: About,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum About {
    Step {
        step: StepIx,
        verb: Verb,
        from: StateName,
        to: StateName,
    },
    /// An offer came or went; the step stays queued.
    Offer {
        step: StepIx,
        worker: WorkerId,
        what: OfferNews,
    },
    /// News of an attempt that change no state: evidence, and alarms for want of it.
    Attempt {
        step: StepIx,
        worker: WorkerId,
        what: AttemptNews,
    },
    Job {
        from: JobState,
        to: JobState,
    },
    /// Somebody said yes to a step that waits for more of them.
    Approved {
        step: StepIx,
    },
    CancelAsked,
    /// It waits for room in its concurrency group, or has found it.
    Slot,
    /// Another job goes on where this one ended.
    Continued,
    /// What it did of late may not be on record.
    Restored,
    /// What followed on its end or on a notice, or could not.
    Hook,
    /// Something takes longer than it should.
    Notice {
        step: Option<StepIx>,
    },
}

/// How it is known that a worker will not come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReturn {
    /// It said so itself, before.
    SaidSo,
    /// Who made its machine says that it is gone.
    MachineGone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptNews {
    /// It was given up, and nobody knows whether it still runs.
    Unconfirmed,
    /// It is over after all that is known: proof came, or a person's word.
    Confirmed,
    /// Its true end came after it was given up.
    LateOutcome,
    /// Nothing is heard of it, and only an operator may act on that.
    Silent,
    /// It was heard again after all.
    HeardAgain,
    /// Its window was made longer.
    MoreTime,
    /// It spoke although it is no longer its step's current one; nobody listened.
    Stale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferNews {
    Made,
    Refused,
    Unanswered,
    Lost,
}

/// What the shell does after the commit. Losing one is allowed: rows and deadlines bring it about again.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send this offer to its worker.
    Offer {
        step: StepIx,
        offer: Offer,
    },
    /// The offer no longer stands.
    Withdraw {
        ticket: Ticket,
        worker: WorkerId,
    },
    /// Leave to start.
    Go {
        ticket: Ticket,
        worker: WorkerId,
    },
    Stop {
        ticket: Ticket,
        worker: WorkerId,
        mode: StopMode,
        cause: StopCause,
        grace: Duration,
    },
    /// The end is on record; the worker may let go of the attempt once its log is stored too.
    Forget {
        ticket: Ticket,
        worker: WorkerId,
    },
}

/// Why an event changed nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// From an attempt, or a link, that is no longer the current one.
    #[error("stale: {0}")]
    Stale(Stale),
    #[error(transparent)]
    Illegal(#[from] Illegal),
    #[error("the step is {state}, so there is nothing to {wanted}")]
    NotNow { state: StateName, wanted: &'static str },
    #[error("the job is already {0}")]
    JobFinal(JobState),
    #[error("the job is {0}, and only one that has ended can be continued")]
    JobOpen(JobState),
    /// Without a ground there is no successor.
    #[error("an attempt before it may still run")]
    MayStillRun { steps: Vec<StepIx> },
    #[error("the job has no such step")]
    NoSuchStep,
    #[error("the step waits for another job, or for none")]
    NotItsChild,
    #[error("the step knows how its child job stands")]
    KnownOfChild,
    #[error("the job does not wait for its concurrency group")]
    NotInLine,
    #[error("the job was told before that the database was restored")]
    RestoredBefore,
    /// Each counts once.
    #[error("{by} has approved it already, and {missing} more must")]
    ApprovedBefore { by: String, missing: u32 },
    #[error("{by} submitted the job, and its approval is for others to give")]
    OwnJob { by: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    #[error("the step has no such attempt now")]
    Attempt,
    #[error("the fence is not the current one")]
    Fence,
    #[error("it was seen on an earlier link")]
    Epoch,
}
