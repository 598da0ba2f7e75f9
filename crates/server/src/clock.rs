//! The one place of the server that reads a clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::Time;

/// The installation's time: the system's, except that it never goes back, and never stands still either.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    last: Mutex<Tick>,
}

/// Both clocks of this machine, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    pub now: Time,
    /// Since this process started, by the clock that nobody can set.
    pub mono: Duration,
}

impl Clock {
    /// `floor`: the time up to which this installation has got already.
    pub fn starting_at(floor: Time) -> Clock {
        Clock { started: Instant::now(), last: Mutex::new(Tick { now: floor, mono: Duration::ZERO }) }
    }

    pub fn now(&self) -> Time {
        self.tick().now
    }

    pub fn tick(&self) -> Tick {
        // A panic elsewhere cannot have left a reading half-made.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Time(i64::try_from(wall.as_micros()).unwrap_or(i64::MAX));
        *last = follow(*last, Tick { now: wall, mono: self.started.elapsed() });
        *last
    }
}

/// A clock that was set back is waited for: ours goes on a little slower until it has caught up.
fn follow(last: Tick, read: Tick) -> Tick {
    let passed = read.mono.saturating_sub(last.mono);
    let now = if read.now >= last.now { read.now } else { last.now + passed * 9 / 10 };
    Tick { now, mono: read.mono }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(now_secs: i64, mono_secs: u64) -> Tick {
        Tick { now: Time(now_secs * 1_000_000), mono: Duration::from_secs(mono_secs) }
    }

    #[test]
    fn a_clock_that_was_set_back_neither_goes_back_nor_stands_still() {
        let mut last = tick(10_000, 0);
        for (wall, mono, expected) in
            [(10_010, 10, 10_010), (9_020, 20, 10_019), (9_120, 120, 10_109), (12_000, 130, 12_000)]
        {
            last = follow(last, tick(wall, mono));
            assert_eq!(last, tick(expected, mono));
        }
    }

    #[test]
    fn a_restart_begins_where_the_installation_was() {
        let far = Time(i64::MAX / 2);
        assert!(Clock::starting_at(far).now() >= far);
        assert!(Clock::starting_at(Time(0)).now() > Time(1_600_000_000_000_000));
    }
}
