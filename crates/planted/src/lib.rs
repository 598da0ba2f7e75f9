//! Planted bugs: wrong decisions that the simulator must find, or it could not find real ones.
//!
//! A simulator that has found nothing for a million seeds has proved nothing, unless it is known to find what is there. So
//! the places that decide ask here whether to decide wrongly, one short branch each: `if planted::is(Bug::Name)`. Each
//! imitates a bug that some job system had. The simulator chooses one of them at a time, and must notice.
//!
//! Without the feature `planted`, which no product crate may turn on, [`is`] is a constant: the branches are not compiled,
//! there is nothing to choose and nothing to pay. `tests/absent.rs` holds that.

mod bugs;

pub use bugs::Bug;

/// Whether this build can decide wrongly at all.
pub const POSSIBLE: bool = cfg!(feature = "planted");

/// Whether this wrong decision is to be taken.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_: Bug) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use choice::is;

/// Plants this bug in the whole process, or none. False if this build cannot.
pub fn choose(bug: Option<Bug>) -> bool {
    #[cfg(feature = "planted")]
    choice::set(bug);
    POSSIBLE || bug.is_none()
}

#[cfg(feature = "planted")]
mod choice {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    /// The number of the chosen one, from 1 on; 0 is none.
    static CHOSEN: AtomicU8 = AtomicU8::new(0);

    #[inline]
    pub fn is(bug: Bug) -> bool {
        CHOSEN.load(Ordering::Relaxed) == number(bug)
    }

    pub(super) fn set(bug: Option<Bug>) {
        CHOSEN.store(bug.map_or(0, number), Ordering::Relaxed);
    }

    const fn number(bug: Bug) -> u8 {
        bug as u8 + 1
    }
}
