//! What goes into a runner's life and what comes out of it.

use std::time::Duration;

use protocol::attempt::{CleanupEnd, End, EndResult, StopReason};
use protocol::folder::{FromRunner, Ownership, RunnerPhase, ToRunner};
use protocol::secret::SecretValues;

use crate::folder_io::Claimed;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A worker is there and wants to know where things stand. Of several the newest counts.
    Connected,
    /// No worker is there any more.
    Disconnected,
    Heard(ToRunner),
    /// By a signal: somebody shuts the machine or the service down.
    ToldToEnd,
    /// To [`Action::LookIfWanted`]: the folder is void, or gone.
    Unwanted,
    /// To [`Action::Claim`].
    Claimed(Claimed),
    /// To [`Action::Claim`], [`Action::Spawn`] or [`Action::CleanUp`]: it could not be done.
    StartFailed {
        message: String,
    },
    /// To [`Action::Spawn`] or [`Action::CleanUp`]: the process executes.
    Started {
        pid: u32,
        start_time: u64,
    },
    /// The step's own process, or that of its cleanup, has ended, and what it left behind was killed.
    StepEnded {
        result: EndResult,
    },
    /// All that the ended process has printed is in the log, as far as it can be had.
    Drained,
    /// To [`Action::Record`]: what the exit record holds.
    Recorded {
        end: Box<End>,
    },
    /// Nothing else waits; see what is due.
    Tick,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// To the worker. Without one it is lost; whoever connects is told where things stand.
    Send(FromRunner),
    SendStatus(RunnerPhase),
    /// Tell the worker how far the log is.
    SendLog,
    /// The server has the log up to this line.
    LogAcked {
        seq: u64,
    },
    /// Nobody is there to say whether the attempt is void: if the folder says so, or is gone, answer
    /// [`Input::Unwanted`].
    LookIfWanted,
    /// Claim the folder as never started, so that nobody who finds it has to wonder. Whether it works does not matter.
    DeclareVoid,
    /// Give the step these when it is executed, and show nobody what it prints of them.
    Equip(SecretValues),
    /// Claim the folder as started, exclusively; durably if asked. Wants an answer.
    Claim {
        durable: bool,
    },
    /// Execute the step; first start a guard if its lease ends it. Wants an answer.
    Spawn {
        guard_until: Option<Duration>,
    },
    /// Until when the folder calls the step its own.
    SetOwnership(Ownership),
    /// To the step's group.
    Signal(i32),
    /// KILL to everything of the step, or of its cleanup.
    Kill,
    /// Execute the cleanup in the step's place, which has ended with all that it printed. Wants an answer.
    CleanUp {
        reason: StopReason,
    },
    /// A line of the runner's own in the log.
    Note(String),
    WakeCaretaker,
    /// Write the exit record durably; the answer says what it holds.
    Record {
        result: EndResult,
        stopped: Option<StopReason>,
        ran_for: Duration,
        cleanup: Option<CleanupEnd>,
    },
    /// This was all.
    Leave,
}
