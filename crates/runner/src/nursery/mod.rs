//! Runners without the cost of starting a program: a warm process that forks one for every attempt.
//!
//! Most of what a runner cost was its start: exec, the dynamic linker, relocations, page faults. The nursery pays that
//! once. It has one thread and no state, so a fork of it is as good as a new process.
//!
//! ```text
//!  worker ── Nursery ──folder, socket──► nursery ──fork──► runner FOLDER
//!                    ◄──errno or 0──────                      └─ from here on as if it was started by itself
//! ```
//!
//! * `client`: [`Nursery`], the worker's handle.
//! * `process`: [`main`], the process itself.
//! * `wire`: what the two say to each other.

mod client;
mod process;
mod wire;

pub use client::Nursery;
pub use process::main;

/// What a runner's program is given in place of a folder, to be a nursery.
pub const FLAG: &str = "--nursery";
