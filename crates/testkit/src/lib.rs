//! What tests of several crates need: Bowline as real processes, and everything that may happen to them.
//!
//! Nothing in here imitates Bowline. It starts the binary that was built with the tests ([`House`]), stops its
//! processes at chosen points ([`Pauses`]), kills and freezes them ([`process`]), cuts their network ([`Proxy`]), takes
//! their disk ([`SmallDisk`]) and moves their clock ([`FakeClock`]), or looks at what a process asks of the disk
//! ([`disk_calls`]). Whether a step ran twice is not asked of Bowline
//! but of a file that each execution writes to itself ([`Outside`]). [`postgres`] is a real one, for houses whose servers
//! share a database and for tests of stores, and [`PgBouncer`] a real pooler in front of it.

mod clock;
mod disk;
mod disk_calls;
mod house;
mod outside;
mod pauses;
mod pgbouncer;
pub mod postgres;
pub mod process;
mod proxy;
mod ran;
mod role;
mod skipped;
mod wait;

pub use clock::FakeClock;
pub use disk::SmallDisk;
pub use disk_calls::disk_calls;
pub use house::{House, no_sqlite_here, on_postgres, states, step_of};
pub use outside::Outside;
pub use pause::Point;
pub use pauses::Pauses;
pub use pgbouncer::PgBouncer;
pub use proxy::{Direction, Fault, Proxy};
pub use ran::{Ran, finish};
pub use role::Role;
pub use skipped::skipped;
pub use wait::{PATIENCE, await_that, within};
