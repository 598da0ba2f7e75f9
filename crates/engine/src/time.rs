//! Points in time, always handed in by the caller: the engine has no clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Microseconds since the Unix epoch, by the clock of the installation (the database's, where there is one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time(pub i64);

/// Microseconds of *hearing time*: the installation's time less all in which it could neither hear nor commit.
///
/// Deadlines of silence are kept in it, so that whoever was deaf judges nobody for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Heard(pub i64);

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    pub now: Time,
    /// Never ahead of `now`.
    pub heard: Heard,
    /// No verdict on silence before this: those who were not heard get the time to call in.
    pub verdicts_from: Heard,
}

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

impl Heard {
    pub const MIN: Heard = Heard(i64::MIN);
    pub const MAX: Heard = Heard(i64::MAX);

    /// How much was heard after `earlier`; nothing if this is not after it.
    pub fn since(self, earlier: Heard) -> Duration {
        Time(self.0).since(Time(earlier.0))
    }
}

impl Clocks {
    /// Of an installation that was never deaf.
    pub fn never_deaf(now: Time) -> Clocks {
        Clocks { now, heard: Heard(now.0), verdicts_from: Heard::MIN }
    }

    /// When `at` will be, if no deaf time comes in between. As deaf time only grows, it is never later than that.
    pub fn wall(&self, at: Heard) -> Time {
        Time(at.0.saturating_add(self.now.0.saturating_sub(self.heard.0)))
    }

    /// When silence up to `deadline` may be judged.
    pub fn verdict_at(&self, deadline: Heard) -> Time {
        self.wall(deadline.max(self.verdicts_from))
    }

    /// Whether silence up to `deadline` may be judged now.
    pub fn may_judge(&self, deadline: Heard) -> bool {
        deadline.max(self.verdicts_from) <= self.heard
    }

    /// Since deaf time ended too little has been heard to judge anybody.
    pub fn is_quiet_stretch(&self) -> bool {
        self.heard < self.verdicts_from
    }
}

/// RFC 3339 in UTC, to the millisecond; whole seconds without a fraction.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000) / 1_000);
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match millis {
            0 => f.write_str("Z"),
            millis => write!(f, ".{millis:03}Z"),
        }
    }
}

/// Year, month and day of a day counted from 1970-01-01, by eras of 400 years that begin in March.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
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

impl Add<Duration> for Heard {
    type Output = Heard;
    fn add(self, d: Duration) -> Heard {
        Heard((Time(self.0) + d).0)
    }
}

impl Sub<Duration> for Heard {
    type Output = Heard;
    fn sub(self, d: Duration) -> Heard {
        Heard((Time(self.0) - d).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_rfc_3339() {
        let told = |seconds: i64, micros: i64| Time(seconds * 1_000_000 + micros).to_string();
        assert_eq!(told(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(told(951_782_400, 0), "2000-02-29T00:00:00Z");
        assert_eq!(told(1_763_208_000, 250_900), "2025-11-15T12:00:00.250Z");
        assert_eq!(told(-1, 0), "1969-12-31T23:59:59Z");
    }

    /// The calendar as everybody knows it, day by day, over a whole round of leap years.
    #[test]
    fn every_day_is_followed_by_the_next() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = |year: i64, month: i64| match month {
            2 => 28 + i64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut expected = (1970, 1, 1);
        for days in 0..147_000 {
            assert_eq!(civil(days), expected, "day {days}");
            expected = match expected {
                (year, 12, 31) => (year + 1, 1, 1),
                (year, month, day) if day == length(year, month) => (year, month + 1, 1),
                (year, month, day) => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn milliseconds_are_whole_ones_also_before_1970() {
        assert_eq!([1_999, 2_000, 0, -1].map(|micros| Time(micros).millis()), [1, 2, 0, -1]);
    }

    #[test]
    fn what_is_not_after_is_no_time_after() {
        assert_eq!(Heard(7).since(Heard(4)), Duration::from_micros(3));
        assert_eq!(Heard(4).since(Heard(7)), Duration::ZERO);
        assert_eq!(Time(i64::MIN).since(Time::MAX), Duration::ZERO);
    }

    /// The quiet stretch is over at the very moment from which on verdicts are allowed.
    #[test]
    fn a_quiet_stretch_is_when_nobody_may_be_judged() {
        for heard in 99..=101 {
            let clocks = Clocks { now: Time(500), heard: Heard(heard), verdicts_from: Heard(100) };
            assert_eq!(clocks.is_quiet_stretch(), !clocks.may_judge(Heard::MIN), "at {heard}");
        }
    }
}
