//! A database in plain memory, for the simulator and for tests: quick, shared by any number of servers in one process,
//! and able to lose what it said was safe.
//!
//! ```text
//!  server ──► MemoryStore ─┐
//!  server ──► MemoryStore ─┼─► MemoryDatabase: tables behind one lock, each with what it held before
//!  checker ─► Rows ────────┘
//! ```
//!
//! It answers as SQLite does, row by row and in the same order; the conformance suite and a differential test against
//! `store-sqlite` hold it to that. No server keeps its jobs in it.

mod database;
mod rows;

mod reader;
mod store;

mod beats;
mod commit;
mod groups;
mod leases;
mod logs;
mod retention;
mod servers;
mod workers;

mod indexes;
mod table;
mod tables;

pub use database::{FORGETTABLE_COMMITS, MemoryDatabase, Snapshot};
pub use reader::MemoryReader;
pub use rows::Rows;
pub use store::MemoryStore;
pub use tables::{AttemptRecord, LogRow, MarkRow};
