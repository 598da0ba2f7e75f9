//! The one place of the server that reads a clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::Time;

/// The installation's time: the system's, except that it never goes back.
#[derive(Debug, Default)]
pub struct Clock {
    latest: AtomicI64,
}

impl Clock {
    pub fn now(&self) -> Time {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = i64::try_from(wall.as_micros()).unwrap_or(i64::MAX);
        let before = self.latest.fetch_max(wall, Ordering::AcqRel);
        Time(before.max(wall))
    }
}
