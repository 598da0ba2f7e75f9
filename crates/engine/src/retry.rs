//! Whether a step is tried again, and when. Chance is a number that the caller brings.

use std::time::Duration;

use planted::Bug;

use crate::failure::{Failure, FailureKind};

/// More attempts than anyone waits for.
pub const ATTEMPTS_MAX: u32 = 1_000;

#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// How often the step may be executed in all; 1 means no retry.
    pub attempts: u32,
    pub on: RetryOn,
    pub delay: Duration,
    /// Each further delay is the one before times this.
    pub backoff: f64,
    pub max_delay: Option<Duration>,
    /// Take a random share between half and all of the delay.
    pub jitter: bool,
}

/// The kinds of failure that a policy answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOn {
    /// Any exit code but 0, any signal, and a program that could not be started.
    pub failure: bool,
    pub timeout: bool,
    pub worker_lost: bool,
    pub exit_codes: Vec<i32>,
    pub signals: Vec<i32>,
}

impl Default for RetryOn {
    fn default() -> Self {
        RetryOn { failure: true, timeout: true, worker_lost: false, exit_codes: Vec::new(), signals: Vec::new() }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            attempts: 1,
            on: RetryOn::default(),
            delay: Duration::ZERO,
            backoff: 1.0,
            max_delay: None,
            jitter: false,
        }
    }
}

impl RetryPolicy {
    /// The wait before the next execution after `executed` of them, or none if there is no next one.
    pub fn next_delay(&self, failure: &Failure, executed: u32, random: u64) -> Option<Duration> {
        let attempts = self.attempts + u32::from(planted::is(Bug::OneExecutionTooMany));
        (executed < attempts && self.on.covers(failure)).then(|| self.delay_after(executed, random))
    }

    fn delay_after(&self, executed: u32, random: u64) -> Duration {
        // Kept finite: no delay times an endless power must stay no delay.
        let power = self.backoff.powi(i32::try_from(executed.saturating_sub(1)).unwrap_or(i32::MAX)).min(f64::MAX);
        let cap = self.max_delay.unwrap_or(DELAY_MAX).min(DELAY_MAX).as_secs_f64();
        let seconds = (self.delay.as_secs_f64() * power).min(cap);
        let share = if self.jitter { 0.5 + 0.5 * unit(random) } else { 1.0 };
        Duration::from_secs_f64((seconds * share).max(0.0))
    }
}

/// A backoff never sleeps longer than a month; a policy that wants more has a typing error.
const DELAY_MAX: Duration = Duration::from_secs(31 * 24 * 3600);

impl RetryOn {
    fn covers(&self, failure: &Failure) -> bool {
        match failure.kind {
            FailureKind::ExitCode(code) => self.failure || self.exit_codes.contains(&code),
            FailureKind::Signal(signal) => self.failure || self.signals.contains(&signal),
            FailureKind::OomKilled => self.failure || self.signals.contains(&9),
            FailureKind::SpawnFailed | FailureKind::BadOutput | FailureKind::Artifacts => self.failure,
            // Of a child job that its group had no room for; there may be some later.
            FailureKind::GroupFull | FailureKind::GroupDeadlock => self.failure,
            // The second one is a child job's: that of the step's own job calls everything off.
            FailureKind::StepTimeout | FailureKind::JobTimeout => self.timeout,
            FailureKind::WorkerLost
            | FailureKind::MachineRebooted
            | FailureKind::WorkerRemoved
            | FailureKind::RunnerLost
            | FailureKind::ResultNotAvailable
            | FailureKind::RunnerStale
            | FailureKind::LeaseExpired => self.worker_lost,
            // Nothing ran, a person decided, or repeating would only repeat the fault.
            FailureKind::Unmatched
            | FailureKind::DispatchExhausted
            | FailureKind::Poison
            | FailureKind::Expired
            | FailureKind::HoldExpired
            | FailureKind::Rejected
            | FailureKind::Cancelled
            | FailureKind::Template
            | FailureKind::Secret
            | FailureKind::UnknownTask
            | FailureKind::InvalidInput
            | FailureKind::Resolved
            | FailureKind::Internal => false,
        }
    }
}

/// A number in [0, 1) from 64 random bits.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(attempts: u32) -> RetryPolicy {
        RetryPolicy {
            attempts,
            delay: Duration::from_secs(5),
            backoff: 2.0,
            max_delay: Some(Duration::from_secs(60)),
            ..RetryPolicy::default()
        }
    }

    fn exit(code: i32) -> Failure {
        Failure::new(FailureKind::ExitCode(code), "the program failed")
    }

    #[test]
    fn attempts_counts_executions() {
        let p = policy(3);
        assert_eq!(p.next_delay(&exit(1), 1, 0), Some(Duration::from_secs(5)));
        assert_eq!(p.next_delay(&exit(1), 2, 0), Some(Duration::from_secs(10)));
        assert_eq!(p.next_delay(&exit(1), 3, 0), None);
    }

    #[test]
    fn delay_grows_to_its_cap() {
        assert_eq!(policy(100).next_delay(&exit(1), 50, 0), Some(Duration::from_secs(60)));
        let endless = RetryPolicy { max_delay: None, backoff: 10.0, ..policy(1_000) };
        let month = Duration::from_secs(2_678_400);
        assert_eq!(endless.next_delay(&exit(1), 999, 0), Some(month));
        let at_once = RetryPolicy { delay: Duration::ZERO, ..endless };
        assert_eq!(at_once.next_delay(&exit(1), 999, 0), Some(Duration::ZERO));
    }

    #[test]
    fn jitter_takes_between_half_and_all() {
        let p = RetryPolicy { jitter: true, ..policy(2) };
        assert_eq!(p.next_delay(&exit(1), 1, 0), Some(Duration::from_millis(2500)));
        let most = p.next_delay(&exit(1), 1, u64::MAX).expect("one is left");
        assert!(most <= Duration::from_secs(5) && most > Duration::from_millis(4999));
    }

    #[test]
    fn only_what_is_named_is_retried() {
        let on = RetryOn { failure: false, timeout: false, exit_codes: vec![75], ..RetryOn::default() };
        let p = RetryPolicy { on, ..policy(2) };
        assert!(p.next_delay(&exit(75), 1, 0).is_some());
        assert!(p.next_delay(&exit(1), 1, 0).is_none());
        assert!(p.next_delay(&Failure::new(FailureKind::StepTimeout, "too long"), 1, 0).is_none());
    }
}
