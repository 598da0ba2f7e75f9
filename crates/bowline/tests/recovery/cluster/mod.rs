//! Several servers on one PostgreSQL: who holds whose link, who dies, who sleeps, and what becomes of the database that they share.
//!
//! These have PostgreSQL whatever the other tests of a run have. Those that break it have a cluster of their own.

mod stream;
mod town;

mod chaos;
mod connections;
mod database;
mod failover;
mod kills;
mod restore;
mod rights;
mod siblings;
mod singletons;
mod talk;
mod upgrades;
mod verdicts;
