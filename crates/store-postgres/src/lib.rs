//! The ledger's database on PostgreSQL, which several servers may share.
//!
//! ```text
//!  ledger ──► PostgresStore (one connection that writes)  ─┐
//!                                                          ├─ one thread that drives all sockets ──► PostgreSQL
//!  API    ──► PostgresReader (a few connections beside it) ─┤
//!  ledger ◄─► PostgresBell (one that listens)              ─┘
//! ```
//!
//! The server opens a [`PostgresStore`]; everything that looks gets its [`store::Reader`] from it. SQL lives in `sql/`,
//! one statement per file, and the schema in `migrations/`. Rows are written with arrays and `unnest`, so that a statement's text
//! never depends on how many there are, and statements that do not need each other's answers travel together.

mod address;
mod bell;
mod driver;
mod migrate;
mod options;
mod place;
mod session;

mod ahead;
mod beats;
mod commit;
mod groups;
mod hold;
mod leases;
mod logs;
mod retention;
mod servers;
mod triggers;
mod workers;
mod writer;

mod check;
mod dump;
mod import;
mod pool;
mod reader;

mod error;
mod sql;
mod values;

pub use address::shown;
pub use check::check;
pub use dump::{dump_variables, server_major};
pub use import::Import;
pub use migrate::{migrate, outlook};
pub use options::Options;
pub use reader::PostgresReader;
pub use writer::PostgresStore;
