//! A simulator: servers, workers, runners, network, disks, clocks and the database in one process, one thread, from one
//! seed. What decides is the product's own code; what is simulated is only what surrounds it.
//!
//! In reading order: [`world`] (the loop), [`setup`] and [`workload`] (what a seed is), `servers`, `hosts`, `runners`
//! (the shells around the product's decisions), `net`, `disk`, `database` (what they stand on), [`faults`] and `users` (what
//! happens to them), [`check`] (what must hold). [`scenario`] plays what is written down instead of rolled.

pub mod campaign;
pub mod case;
pub mod check;
pub mod faults;
pub mod plants;
pub mod scenario;
pub mod secrets;
pub mod setup;
pub mod shrink;
pub mod story;
pub mod workload;
pub mod world;

mod agenda;
mod attic;
mod database;
mod dice;
mod disk;
mod files;
mod hosts;
mod looks;
mod millis;
mod model;
mod net;
mod runners;
mod servers;
mod users;

pub use hosts::{Copied, Emptied};
pub use servers::Ambush;
pub use users::Act;
