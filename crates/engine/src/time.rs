//! A point in time, always handed in by the caller: the engine has no clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Microseconds since the Unix epoch, by the clock of the installation (the database's, where there is one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time(pub i64);

impl Time {
    pub const MAX: Time = Time(i64::MAX);

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub fn millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, d: Duration) -> Time {
        Time(self.0.saturating_sub(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)))
    }
}
