//! Waiting for what another process does.

use std::time::{Duration, Instant};

/// Nothing here takes longer, even on a busy machine; whatever does has hung.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Looks until there is something, or patience is over. For what another process does there is nothing to await.
pub fn await_that<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, look)
}

/// The same with a deadline that is part of what is tested.
pub fn within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < patience, "waited {patience:?} in vain: {what}");
        std::thread::sleep(LOOK_PAUSE);
    }
}
