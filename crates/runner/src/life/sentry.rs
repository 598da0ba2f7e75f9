//! What the guard decides: whether a step that ends with its lease must be ended in its runner's place.

use std::time::Duration;

use crate::fence::Answer;

/// The record has whole milliseconds, cut off: the guard never acts before the runner itself would.
const ROUNDING: Duration = Duration::from_millis(1);

/// Stands by until the runner is dead, or its lease over without a renewal.
#[derive(Debug)]
pub struct Sentry {
    /// The end of the lease, as far as it is known here.
    ends_at: Duration,
}

impl Sentry {
    /// `ends_at`: the end of the lease, until the record names a later one.
    pub fn new(ends_at: Duration) -> Self {
        Sentry { ends_at }
    }

    /// Until when to sleep; `None`: end the step. `ask` reads the record, and is called only when the lease seems over: a
    /// step that was disowned early has its grace, which the runner keeps.
    pub fn turn(&mut self, runner_lives: bool, now: Duration, ask: impl FnOnce() -> Answer) -> Option<Duration> {
        if !runner_lives {
            return None;
        }
        if now >= self.ends_at {
            let Answer::Owner { left } = ask() else { return None };
            self.ends_at = now + left + ROUNDING;
        }
        Some(self.ends_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn never() -> Answer {
        unreachable!("the lease is not over")
    }

    #[test]
    fn it_sleeps_to_the_end_of_the_lease_and_on_if_that_was_renewed() {
        let mut sentry = Sentry::new(seconds(10));
        assert_eq!(sentry.turn(true, seconds(3), never), Some(seconds(10)));
        let renewed = Some(seconds(25) + ROUNDING);
        assert_eq!(sentry.turn(true, seconds(10), || Answer::Owner { left: seconds(15) }), renewed);
        assert_eq!(sentry.turn(true, seconds(11), never), renewed);
    }

    #[test]
    fn a_dead_runner_or_a_lease_that_nobody_renewed_calls_it() {
        assert_eq!(Sentry::new(seconds(10)).turn(false, seconds(3), never), None);
        for answer in [Answer::NotOwner, Answer::CannotTell] {
            assert_eq!(Sentry::new(seconds(10)).turn(true, seconds(10), || answer), None, "{answer:?}");
        }
    }
}
