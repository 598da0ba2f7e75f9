//! Task and config text in, typed values and diagnostics out. Pure: no files, no environment, no clock.
//!
//! ```text
//!  text ─► yaml (a tree with places) ─► lower (keys, types) ─► task | config ─► (value, diagnostics)
//!                                                                    │
//!                                                     template (checked now, evaluated by `eval`)
//! ```
//!
//! Every problem of a text is reported at once, each with its place and, where one can be had, a hint.

mod check;
mod diagnostic;
mod lower;
mod render;
mod source;
mod template;
mod yaml;

pub mod config;
pub mod cron;
pub mod eval;
pub mod schema;
pub mod task;

pub use check::{FileKind, check};
pub use diagnostic::{Code, Diagnostic, Place, Severity};
pub use lower::duration::parse as parse_duration;
pub use lower::nearest::nearest;
pub use render::render;
