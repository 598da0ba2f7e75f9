//! A second opinion on how a step may go on and how it must end, from nothing but the plan and what really happened. It
//! shares no code with the engine: where the two differ, one of them is wrong.

use crate::workload::{RetryPlan, StepPlan};

/// Why an attempt came to nothing, as far as a repeat depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The program's own end: this code, or a signal.
    Exit(Option<i32>),
    Timeout,
    /// Its worker, machine or runner is gone, or it was cut off for longer than its lease.
    Lost,
    /// It was granted, and provably never ran.
    NeverStarted,
    /// A person settled it.
    Person,
    /// Nothing that anybody may repeat.
    Final,
}

/// How an attempt that never started is told from one whose runner died.
const NEVER_STARTED: &str = "The attempt never started";

impl Reason {
    pub(crate) fn of(code: Option<&str>, message: Option<&str>, exit_code: Option<i32>) -> Reason {
        match code {
            Some("exit_code" | "signal" | "oom_killed" | "spawn_failed" | "bad_output") => Reason::Exit(exit_code),
            Some("step_timeout") => Reason::Timeout,
            Some("runner_lost") if message.is_some_and(|text| text.starts_with(NEVER_STARTED)) => Reason::NeverStarted,
            Some(
                "worker_lost"
                | "machine_rebooted"
                | "worker_removed"
                | "runner_lost"
                | "result_not_available"
                | "runner_stale"
                | "lease_expired",
            ) => Reason::Lost,
            Some("resolved") => Reason::Person,
            _ => Reason::Final,
        }
    }
}

impl StepPlan {
    /// Never two copies at once: it says so, or writes and is repeated after losses.
    pub(crate) fn stops(&self) -> bool {
        self.stop || (!self.may_repeat() && self.names("worker_lost"))
    }

    /// Its effects let it be handed over again after a loss.
    pub(crate) fn may_repeat(&self) -> bool {
        self.effects != "writes"
    }

    pub(crate) fn executions_max(&self) -> u32 {
        self.retry.as_ref().map_or(1, |retry| retry.attempts)
    }

    /// Whether its policy answers an end of this kind.
    pub(crate) fn retries(&self, reason: Reason) -> bool {
        match reason {
            Reason::Exit(code) => self.names("failure") || (code == Some(75) && self.names("\"exit:75\"")),
            Reason::Timeout => self.names("timeout"),
            Reason::Lost => self.names("worker_lost"),
            Reason::NeverStarted | Reason::Person | Reason::Final => false,
        }
    }

    fn names(&self, word: &str) -> bool {
        self.retry.as_ref().is_some_and(|RetryPlan { on, .. }| on.contains(&word))
    }
}
