//! The workers' WebSockets: one task that reads and one that writes per link, around a state machine without I/O.
//!
//! ```text
//!  worker ══ WebSocket ══► reader ─► Machine ─► Ledger (control queue | log queue)
//!         ◄═════════════ writer ◄─ LinkSender ◄─ Ledger
//! ```

mod machine;
mod socket;

pub(crate) use machine::ASKED_FROM;
pub use machine::{Fault, Inbound, Machine, Silence, UNANSWERED_MAX};
pub use socket::{HELLO_TIMEOUT, routes};
