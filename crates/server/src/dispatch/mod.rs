//! Who gets what: queued steps on one side, workers with free slots on the other, and a pure plan between them.
//!
//! Both sides live in memory and are derived from rows: lose them, and they are built again from the store.

mod plan;
mod queue;
mod roster;
mod share;
mod tags;

pub use plan::{Assignment, plan};
pub use queue::{Place, Queue, QueueKey};
pub use roster::{Drain, EPHEMERAL, LinkId, Pause, Roster, Worker, unwilling};
pub use share::Whose;
pub use tags::TagSet;
