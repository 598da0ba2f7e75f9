//! Scripted worlds: one job, and what happens to it, when and to whom, written down instead of rolled. The failure table in
//! docs/failures.md is made of them.
//!
//! ```text
//!  Script ──► play (the same world as everywhere) ──► Seen
//!  at a moment, do this                               states over time, children as they lived, words, logs
//! ```

mod call;
mod moment;
mod play;
mod recorder;
mod script;
mod seen;

pub use moment::Moment;
pub use play::{Stuck, play};
pub use script::{Do, Order, Script, Settle};
pub use seen::{Life, Log, Mark, Seen, Tried, Turn, Word, WordEnd};
