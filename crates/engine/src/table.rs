//! The transition table of a step, whole: for every state and every verb, where it may lead.

use std::fmt;

use planted::Bug;

use crate::state::StateName::{self, *};

/// What can happen to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Enqueue,
    Wait,
    Hold,
    Start,
    Skip,
    Complete,
    Fail,
    Cancel,
    TimerDone,
    Approve,
    Reject,
    Expire,
    Succeed,
    Retry,
    Requeue,
    Stop,
    CancelGraceful,
    CancelForce,
    Recover,
}

/// A step was asked to do what its state does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a step that is {from} cannot {verb} to {to}")]
pub struct Illegal {
    pub from: StateName,
    pub verb: Verb,
    pub to: StateName,
}

/// Checks one move against the table.
pub fn check(from: StateName, verb: Verb, to: StateName) -> Result<(), Illegal> {
    let turns = planted::is(Bug::VerdictTurns) && verb == Verb::Succeed;
    if turns || targets(from, verb).contains(&to) { Ok(()) } else { Err(Illegal { from, verb, to }) }
}

/// The states that `verb` may lead to from `from`; none where it is illegal.
pub fn targets(from: StateName, verb: Verb) -> &'static [StateName] {
    match from {
        Pending => match verb {
            Verb::Enqueue => &[Queued],
            Verb::Wait => &[Waiting],
            Verb::Hold => &[Held],
            Verb::Start => &[Running],
            Verb::Skip => &[Skipped],
            Verb::Complete => &[Success],
            Verb::Fail => &[Failed],
            Verb::Cancel => &[Cancelled],
            Verb::TimerDone | Verb::Approve | Verb::Reject | Verb::Expire | Verb::Succeed | Verb::Retry => &[],
            Verb::Requeue | Verb::Stop | Verb::CancelGraceful | Verb::CancelForce | Verb::Recover => &[],
        },
        Waiting => match verb {
            Verb::TimerDone => &[Queued, Held],
            Verb::Hold => &[Held],
            Verb::Cancel => &[Cancelled],
            Verb::Enqueue | Verb::Wait | Verb::Start | Verb::Skip | Verb::Complete | Verb::Fail => &[],
            Verb::Approve | Verb::Reject | Verb::Expire | Verb::Succeed | Verb::Retry | Verb::Requeue => &[],
            Verb::Stop | Verb::CancelGraceful | Verb::CancelForce | Verb::Recover => &[],
        },
        Held => match verb {
            Verb::Approve => &[Queued, Success],
            Verb::Reject | Verb::Expire | Verb::Cancel => &[Cancelled],
            // Only after the database was restored: for one more reason, and by the word of a worker, or of a person who
            // knows what became of it.
            Verb::Hold => &[Held],
            Verb::Start => &[Running],
            Verb::Succeed => &[Success],
            Verb::Fail => &[Failed],
            Verb::Enqueue | Verb::Wait | Verb::Skip | Verb::Complete | Verb::TimerDone | Verb::Retry => &[],
            Verb::Requeue | Verb::Stop | Verb::CancelGraceful | Verb::CancelForce | Verb::Recover => &[],
        },
        Queued => match verb {
            Verb::Start => &[Running],
            Verb::Hold => &[Held],
            Verb::Fail => &[Failed],
            Verb::Cancel => &[Cancelled],
            Verb::Enqueue | Verb::Wait | Verb::Skip | Verb::Complete | Verb::TimerDone => &[],
            Verb::Approve | Verb::Reject | Verb::Expire | Verb::Succeed | Verb::Retry | Verb::Requeue => &[],
            Verb::Stop | Verb::CancelGraceful | Verb::CancelForce | Verb::Recover => &[],
        },
        Running => match verb {
            Verb::Succeed => &[Success],
            Verb::Fail => &[Failed],
            Verb::Cancel => &[Cancelled],
            Verb::Retry => &[Waiting],
            Verb::Requeue => &[Queued],
            Verb::Stop | Verb::CancelGraceful => &[Cancelling],
            Verb::Recover => &[Recovering],
            Verb::Hold => &[Held],
            Verb::Enqueue | Verb::Wait | Verb::Start | Verb::Skip | Verb::Complete => &[],
            Verb::TimerDone | Verb::Approve | Verb::Reject | Verb::Expire | Verb::CancelForce => &[],
        },
        Recovering => match verb {
            Verb::Start => &[Running],
            Verb::Succeed => &[Success],
            Verb::Fail => &[Failed],
            Verb::Retry => &[Waiting],
            Verb::Requeue => &[Queued],
            Verb::Cancel | Verb::CancelGraceful => &[Cancelled],
            Verb::Hold => &[Held],
            Verb::Enqueue | Verb::Wait | Verb::Skip | Verb::Complete | Verb::TimerDone => &[],
            Verb::Approve | Verb::Reject | Verb::Expire | Verb::Stop | Verb::CancelForce | Verb::Recover => &[],
        },
        Cancelling => match verb {
            // Failed or waiting only where a timeout or a silent runner was the reason of the order, queued also then (its
            // effects allow a repeat, or a later attempt runs of which the record was lost) and success (it ended well
            // before the order) only after a silent runner.
            Verb::Complete => &[Cancelled, Failed, Waiting, Queued, Success],
            Verb::CancelForce => &[Cancelled, Failed, Waiting, Queued],
            Verb::Succeed | Verb::Fail => &[Cancelled],
            Verb::Recover => &[Cancelling],
            Verb::Hold => &[Held],
            Verb::Enqueue | Verb::Wait | Verb::Start | Verb::Skip | Verb::Cancel => &[],
            Verb::TimerDone | Verb::Approve | Verb::Reject | Verb::Expire | Verb::Retry | Verb::Requeue => &[],
            Verb::Stop | Verb::CancelGraceful => &[],
        },
        Success | Failed | Cancelled | Skipped => match verb {
            Verb::Enqueue | Verb::Wait | Verb::Hold | Verb::Start | Verb::Skip | Verb::Complete | Verb::Fail => &[],
            Verb::Cancel | Verb::TimerDone | Verb::Approve | Verb::Reject | Verb::Expire | Verb::Succeed => &[],
            Verb::Retry | Verb::Requeue | Verb::Stop | Verb::CancelGraceful | Verb::CancelForce => &[],
            Verb::Recover => &[],
        },
    }
}

impl Verb {
    pub const ALL: [Verb; 19] = [
        Verb::Enqueue,
        Verb::Wait,
        Verb::Hold,
        Verb::Start,
        Verb::Skip,
        Verb::Complete,
        Verb::Fail,
        Verb::Cancel,
        Verb::TimerDone,
        Verb::Approve,
        Verb::Reject,
        Verb::Expire,
        Verb::Succeed,
        Verb::Retry,
        Verb::Requeue,
        Verb::Stop,
        Verb::CancelGraceful,
        Verb::CancelForce,
        Verb::Recover,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Verb::Enqueue => "enqueue",
            Verb::Wait => "wait",
            Verb::Hold => "hold",
            Verb::Start => "start",
            Verb::Skip => "skip",
            Verb::Complete => "complete",
            Verb::Fail => "fail",
            Verb::Cancel => "cancel",
            Verb::TimerDone => "timer_done",
            Verb::Approve => "approve",
            Verb::Reject => "reject",
            Verb::Expire => "expire",
            Verb::Succeed => "succeed",
            Verb::Retry => "retry",
            Verb::Requeue => "requeue",
            Verb::Stop => "stop",
            Verb::CancelGraceful => "cancel_graceful",
            Verb::CancelForce => "cancel_force",
            Verb::Recover => "recover",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
