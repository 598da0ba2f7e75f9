//! The ledger's database in one SQLite file.
//!
//! ```text
//!  ledger ──► SqliteStore (the one writing connection, WAL, synchronous FULL)
//!                   │ one file
//!  API    ──► SqliteReader (a few read-only connections beside it)
//! ```
//!
//! The server opens a [`SqliteStore`]; everything that looks gets its [`store::Reader`] from it. SQL lives in `sql/`,
//! one statement per file, and the schema in `migrations/`.

mod lock;
mod migrate;
mod place;

mod beats;
mod commit;
mod groups;
mod leases;
mod logs;
mod retention;
mod servers;
mod triggers;
mod workers;
mod writer;

mod backup;
mod check;
mod export;
mod pool;
mod reader;

mod error;
mod sql;
mod values;

pub use backup::{back_up, verify_backup};
pub use check::check;
pub use export::Export;
pub use migrate::{migrate, outlook};
pub use reader::SqliteReader;
pub use writer::SqliteStore;
