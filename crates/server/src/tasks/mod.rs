//! The tasks that can be run by name: files of the task folder, read again when they change, and tasks that were pushed
//! over the API. A file goes before a pushed task of the same name; a broken new version leaves the last good one in use.
//!
//! ```text
//!  task folder ──refresh, once a second──┐
//!                                        ├─► Index (swapped as a whole) ──► submit, GET /api/tasks
//!  PUT /api/tasks ──► ledger ──► push ───┘
//! ```

mod bound;
mod closure;
mod diagnostics;
mod folder;
mod index;
mod known;
mod registry;
mod sure;
mod texts;
mod watch;

pub use bound::{Bound, bind};
pub use closure::{Kin, KinError, texts};
pub use diagnostics::to_api;
pub use index::Listing;
pub use known::{KnownTask, Reading};
pub use registry::TaskRegistry;
pub use sure::{Extent, LACKS_TOLD, deadlock, in_words, lacks, misfits, names_secrets};
pub use watch::{tell, watch};
