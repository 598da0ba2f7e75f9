//! What starts jobs by itself: triggers of tasks, by time or by a call.
//!
//! * [`plan`]: what is to happen when a time has come, and when the next one does. Pure.
//! * [`text`]: what a trigger says, as it is stored.
//! * [`book`]: the triggers of all tasks as they are now, with what each makes.
//!
//! The ledger fires them (`ledger/schedules.rs`): where each stands is a row, and the row and its job move together.

pub mod book;
pub mod plan;
pub mod text;

pub use book::{Book, Entry, Ready, Work};
pub use plan::{Next, Outcome, Times};
pub use text::{Missed, Schedule, Webhook};
