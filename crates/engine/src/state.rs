//! The states of a step, each with exactly the data that it needs.

use std::fmt;

use crate::definition::Effects;
use crate::ids::{AttemptId, Epoch, Fence, JobId, WorkerId};
use crate::time::{Heard, Time};

/// Where a step is. The database holds [`StateName`]'s words.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Waits for its needs.
    Pending,
    /// Waits for a worker. It never ran, or its last attempt is provably over.
    Queued(Queued),
    /// May have run: its start was committed.
    Running(Live),
    /// Others do it. It counts as running, and as cancelling once they were called off.
    Delegated(Delegated),
    /// The worker's link is gone; the attempt may still be running.
    Recovering(Recovering),
    /// Told to stop.
    Cancelling(Cancelling),
    /// Waits for a person.
    Held(Held),
    /// Waits for a time.
    Waiting(Waiting),
    Final(End),
}

/// How a step ended. A step that is here never leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Success,
    Failed,
    Cancelled,
    Skipped(SkipCause),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipCause {
    /// Its condition was false though nothing had failed.
    Condition,
    /// Something that it needs, near or far, failed.
    Failure,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    pub since: Time,
    /// The same moment in hearing time: patience for a worker is counted from it.
    pub heard_since: Heard,
    /// Not offered before this, after an offer that came to nothing.
    pub not_before: Option<Time>,
    pub offer: Option<Offer>,
}

/// A hand-over that was proposed to one worker, and not yet granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    pub attempt: AttemptId,
    pub fence: Fence,
    pub worker: WorkerId,
    pub epoch: Epoch,
    pub at: Time,
    /// Unanswered by then: taken back.
    pub answer_by: Heard,
}

/// The step's one current attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    pub attempt: AttemptId,
    pub number: u32,
    pub fence: Fence,
    pub worker: WorkerId,
    pub epoch: Epoch,
    pub started_at: Time,
    /// When the step's own timeout is over.
    pub timeout_at: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delegated {
    pub since: Time,
    pub to: Delegate,
    /// Why they were called off.
    pub called_off: Option<StopCause>,
    /// The job that does it is held: only a person can move that on, and so this step.
    pub held: bool,
}

/// Who does what a step is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegate {
    /// The steps that it became.
    Items,
    /// A job of its own.
    Child(JobId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovering {
    pub live: Live,
    pub disconnected_at: Time,
    /// The end of the recovery window.
    pub deadline: Heard,
    /// It was given a second window, since many workers were lost with it.
    pub extended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelling {
    pub live: Live,
    pub cause: StopCause,
    pub mode: StopMode,
    /// Grace and cleanup are over by then.
    pub deadline: Time,
    /// Set while the worker's link is gone.
    pub cut: Option<Cut>,
}

/// When a link was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub at: Time,
    pub heard: Heard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    Cancel,
    JobTimeout,
    StepTimeout,
    /// Another item of the same fan-out failed.
    Sibling,
    /// Its runner gave no sign of life for so long.
    RunnerStale {
        silent_ms: u64,
    },
}

impl StopCause {
    /// Nothing follows, whatever policy and effects say.
    pub fn is_final(self) -> bool {
        matches!(self, StopCause::Cancel | StopCause::JobTimeout | StopCause::Sibling)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    Graceful,
    Kill,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub since: Time,
    pub expires_at: Option<Time>,
    /// How many different people must say yes.
    pub wanted: u32,
    /// Those who did, the first one first.
    pub approvals: Vec<Approval>,
    /// The attempt that was under way by a record that was put back to an earlier state: it may still run, and its worker's word on it counts.
    pub live: Option<Live>,
}

/// One person's yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub by: String,
    pub at: Time,
    pub comment: String,
}

impl Held {
    /// How many more people must say yes.
    pub fn missing(&self) -> u32 {
        self.wanted.saturating_sub(u32::try_from(self.approvals.len()).unwrap_or(u32::MAX))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    pub until: Time,
    pub reason: WaitReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitReason {
    Retry,
    Protection,
}

/// Why a step may get a new attempt although it had one. Without a ground there is no successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// The attempt before never got leave to start.
    NeverStarted,
    /// An agent found it ended, or gone with all its processes.
    ReportedGone,
    /// It was bound by a lease, and the lease is over.
    LeaseOver,
    /// Its effects allow a copy beside a stray one, it keeps, and its window is over.
    MayRepeat,
    /// A person says that nothing of it runs any more.
    PersonsWord,
}

impl Ground {
    /// For people who read why something was repeated.
    pub fn word(self) -> &'static str {
        match self {
            Ground::NeverStarted => "it never started",
            Ground::ReportedGone => "it was reported over",
            Ground::LeaseOver => "its lease is over",
            Ground::MayRepeat => "its effects allow a repeat and its window is over",
            Ground::PersonsWord => "a person says that it is dead",
        }
    }

    /// The ground that the end of the recovery window gives, if any: silence alone proves nothing.
    pub fn of_silence(effects: Effects, leased: bool) -> Option<Ground> {
        if leased {
            Some(Ground::LeaseOver)
        } else if effects.may_repeat() {
            Some(Ground::MayRepeat)
        } else {
            None
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StateName {
    Pending,
    Queued,
    Running,
    Recovering,
    Cancelling,
    Held,
    Waiting,
    Success,
    Failed,
    Cancelled,
    Skipped,
}

impl StateName {
    pub const ALL: [StateName; 11] = [
        StateName::Pending,
        StateName::Queued,
        StateName::Running,
        StateName::Recovering,
        StateName::Cancelling,
        StateName::Held,
        StateName::Waiting,
        StateName::Success,
        StateName::Failed,
        StateName::Cancelled,
        StateName::Skipped,
    ];

    pub fn word(self) -> &'static str {
        match self {
            StateName::Pending => "pending",
            StateName::Queued => "queued",
            StateName::Running => "running",
            StateName::Recovering => "recovering",
            StateName::Cancelling => "cancelling",
            StateName::Held => "held",
            StateName::Waiting => "waiting",
            StateName::Success => "success",
            StateName::Failed => "failed",
            StateName::Cancelled => "cancelled",
            StateName::Skipped => "skipped",
        }
    }

    pub fn from_word(word: &str) -> Option<StateName> {
        StateName::ALL.into_iter().find(|name| name.word() == word)
    }

    pub fn is_final(self) -> bool {
        match self {
            StateName::Success | StateName::Failed | StateName::Cancelled | StateName::Skipped => true,
            StateName::Pending
            | StateName::Queued
            | StateName::Running
            | StateName::Recovering
            | StateName::Cancelling
            | StateName::Held
            | StateName::Waiting => false,
        }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl State {
    pub fn name(&self) -> StateName {
        match self {
            State::Pending => StateName::Pending,
            State::Queued(_) => StateName::Queued,
            State::Running(_) | State::Delegated(Delegated { called_off: None, .. }) => StateName::Running,
            State::Recovering(_) => StateName::Recovering,
            State::Cancelling(_) | State::Delegated(Delegated { called_off: Some(_), .. }) => StateName::Cancelling,
            State::Held(_) => StateName::Held,
            State::Waiting(_) => StateName::Waiting,
            State::Final(End::Success) => StateName::Success,
            State::Final(End::Failed) => StateName::Failed,
            State::Final(End::Cancelled) => StateName::Cancelled,
            State::Final(End::Skipped(_)) => StateName::Skipped,
        }
    }

    pub fn is_final(&self) -> bool {
        matches!(self, State::Final(_))
    }

    /// It runs only as its items do.
    pub fn is_fanned_out(&self) -> bool {
        matches!(self, State::Delegated(Delegated { to: Delegate::Items, called_off: None, .. }))
    }

    /// It waits for its child job, which waits for a person.
    pub fn has_held_child(&self) -> bool {
        matches!(self, State::Delegated(Delegated { held: true, called_off: None, .. }))
    }

    /// The job that does what the step is to do.
    pub fn child(&self) -> Option<JobId> {
        match self {
            State::Delegated(Delegated { to: Delegate::Child(job), .. }) => Some(*job),
            _ => None,
        }
    }

    /// The attempt that may be running now.
    pub fn live(&self) -> Option<&Live> {
        match self {
            State::Running(live) => Some(live),
            State::Recovering(r) => Some(&r.live),
            State::Cancelling(c) => Some(&c.live),
            State::Held(held) => held.live.as_ref(),
            State::Pending | State::Queued(_) | State::Delegated(_) | State::Waiting(_) | State::Final(_) => None,
        }
    }

    pub fn offer(&self) -> Option<&Offer> {
        match self {
            State::Queued(queued) => queued.offer.as_ref(),
            _ => None,
        }
    }

    /// Attempt and fence that messages about this step must carry now.
    pub fn ticket(&self) -> Option<(AttemptId, Fence)> {
        self.live().map(|l| (l.attempt, l.fence)).or_else(|| self.offer().map(|o| (o.attempt, o.fence)))
    }
}
