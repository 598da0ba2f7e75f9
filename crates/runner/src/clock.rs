//! The two clocks of runners and workers, and the boot that one of them counts from.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// For deadlines: it never goes back, and it runs on while the machine sleeps.
pub fn boot_now() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    Duration::new(tv_sec.unsigned_abs(), tv_nsec.unsigned_abs() as u32)
}

/// For log lines: microseconds since the epoch.
pub(crate) fn wall_us() -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    tv_sec.saturating_mul(1_000_000).saturating_add(tv_nsec / 1000)
}

/// As it travels in messages and lies in records.
pub fn to_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// New with every boot; processes of another boot are certainly gone. Empty where the system does not say.
pub fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
