//! What goes into the agent and what comes out of it.

use std::time::Duration;

use protocol::attempt::{ArtifactRule, ArtifactSet, AttemptSpec, End, StopMode, StopReason, Ticket};
use protocol::folder::{Claim, FromRunner, RunnerRules};
use protocol::link::{Loss, RefuseReason, RefusedCode, ServerMessage, WorkerMessage};
use protocol::secret::SecretValues;
use uuid::Uuid;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A connection is there; the agent says hello on it.
    LinkUp,
    LinkDown,
    /// One text frame. Any frame is a sign of life, even an empty one.
    Frame(Vec<ServerMessage>),
    /// The folder or the runner could not be made; nothing of it is left.
    PrepareFailed {
        ticket: Ticket,
        reason: RefuseReason,
        detail: String,
    },
    Runner {
        ticket: Ticket,
        said: FromRunner,
    },
    /// The runner's socket closed. What that means is in the folder.
    RunnerGone {
        ticket: Ticket,
    },
    /// Its folder can be read, and says what it is. That is news where it could not be when the worker started.
    Recognised {
        ticket: Ticket,
        spec: Box<AttemptSpec>,
    },
    Examined {
        ticket: Ticket,
        finding: Finding,
    },
    /// The answer to [`Action::Void`]: who came first.
    Claimed {
        ticket: Ticket,
        claim: Claim,
    },
    /// The answer to [`Action::Fetch`]: all files are there, or why they never will be.
    Fetched {
        ticket: Ticket,
        outcome: Result<(), String>,
    },
    /// The answer to [`Action::Store`]: a server has all files, or why none ever will.
    Stored {
        ticket: Ticket,
        outcome: Result<ArtifactSet, String>,
    },
    /// What was ordered with either goes on: some bytes more than ever before.
    FilesMoved {
        ticket: Ticket,
    },
    /// For so long it has only waited for others to be done.
    FilesWaited {
        ticket: Ticket,
        waited: Duration,
    },
    /// The answer to [`Action::Recall`]: what was kept is held again. `complete`: all of it could be brought back.
    Recalled {
        found: Vec<Found>,
        complete: bool,
    },
    Stop(StopLevel),
    /// To a caretaker: the worker whose folder it is wants it back.
    HandOver,
    /// The time that [`Agent::deadline`](super::Agent::deadline) named has come.
    Tick,
}

/// What is to be done, in this order.
#[expect(
    clippy::large_enum_variant,
    reason = "most actions are messages, and none lives longer than the input it answers"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Send(WorkerMessage),
    /// The link is of no use any more: close it and connect anew.
    DropLink {
        why: String,
    },
    /// The link stands. The epoch is to be remembered.
    Welcomed {
        worker: Uuid,
        epoch: u64,
        max_reconnect_delay_ms: u64,
    },
    /// Make the folder and start a runner in it.
    Prepare {
        spec: Box<AttemptSpec>,
        rules: RunnerRules,
    },
    /// Right before `Go`: what its step gets besides, only to be passed on.
    GiveSecrets {
        ticket: Ticket,
        values: SecretValues,
    },
    /// `asked_at`: when the server was asked for this start. `until`: after that it is to be asked again. `cannot`: it is to
    /// end as one that could not be started.
    Go {
        ticket: Ticket,
        asked_at: Duration,
        until: Option<Duration>,
        cannot: Option<String>,
    },
    /// Bring the files that its spec names into its folder; the answer is [`Input::Fetched`].
    Fetch {
        ticket: Ticket,
    },
    /// Bring the files that it leaves to a server; the answer is [`Input::Stored`].
    Store {
        ticket: Ticket,
    },
    /// Nobody waits for the answer to either any more.
    StopFiles {
        ticket: Ticket,
    },
    /// The server granted what the runner asked.
    Renewed {
        ticket: Ticket,
        n: u64,
    },
    Rules {
        ticket: Ticket,
        rules: RunnerRules,
    },
    /// The lease is over and the runner has not ended its step: end both. The folder tells the rest.
    EndLease {
        ticket: Ticket,
    },
    /// Claim the folder as never started; the answer is [`Input::Claimed`]. `told`: its runner was told to go.
    Void {
        ticket: Ticket,
        told: bool,
    },
    /// It is void. The runner, if it waits with this worker at its side, does not look at the claim: tell it to leave.
    SendAway {
        ticket: Ticket,
    },
    StopRunner {
        ticket: Ticket,
        mode: StopMode,
        reason: StopReason,
    },
    /// The end was heard; the runner may leave.
    Bye {
        ticket: Ticket,
    },
    /// See what the folder says; the answer is [`Input::Examined`].
    Examine {
        ticket: Ticket,
    },
    /// Send the log from the line after this one.
    Ship {
        ticket: Ticket,
        after_seq: u64,
    },
    LogGrew {
        ticket: Ticket,
    },
    LogAcked {
        ticket: Ticket,
        seq: u64,
        dropped: bool,
    },
    /// No more lines come. `None`: the log ends where its files end.
    LogEnded {
        ticket: Ticket,
        last_seq: Option<u64>,
    },
    /// The server does not want this log on this link.
    StopShipping {
        ticket: Ticket,
    },
    /// The server has all of it.
    Forget {
        ticket: Ticket,
    },
    /// The server may have forgotten what it had: bring back what is kept; the answer is [`Input::Recalled`].
    Recall,
    /// It never started; nothing of it is worth keeping.
    Discard {
        ticket: Ticket,
    },
    Exit(ExitReason),
}

/// How far a worker is to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    /// Run on.
    Run,
    /// Take no more work, say goodbye, leave the runners running.
    Leave,
    /// End the steps as well.
    EndSteps,
}

/// Why the agent has nothing more to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitReason {
    Stopped,
    /// The one step of `--once` is over.
    OnceDone,
    /// Nothing is left to look after.
    CaretakerDone,
    /// The worker that this caretaker stood in for is back.
    HandedOver,
    /// The link is gone, and the worker was told not to reconnect.
    LinkLost,
    Refused {
        code: RefusedCode,
        message: String,
    },
}

/// An attempt that was found in the state folder when the worker started.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub ticket: Ticket,
    pub job: Uuid,
    pub step: String,
    pub finding: Finding,
    /// 0 and 0 if there are no lines.
    pub log_first_seq: u64,
    pub log_last_seq: u64,
    /// If the step ends with its lease.
    pub lease: Option<FoundLease>,
    /// Which files it leaves.
    pub artifacts: Option<ArtifactRule>,
    /// It wants files of others before it starts.
    pub fetches: bool,
}

/// As the folder's record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundLease {
    pub length: Duration,
    /// On the clock that runs on while the machine sleeps.
    pub from: Duration,
}

/// What an attempt's folder says.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// Its runner lives and waits for `go`.
    Waiting,
    /// Its runner lives and has claimed the start.
    Running,
    Ended(Box<End>),
    /// The folder cannot be read, or not by this version: whether it lives is not known.
    Unreadable,
    /// No runner, and the folder is claimed `void`.
    NeverStarted {
        detail: String,
    },
    /// The machine was restarted, and whether the step had started is not on disk: it has no effects.
    Unsure {
        detail: String,
    },
    /// It may have run, its runner is gone, nothing of it lives, and there is no result.
    Lost {
        loss: Loss,
        detail: String,
    },
}
