//! Steps as processes of this machine, each owned by a runner.
//!
//! * `prepare`: an attempt's folder and its runner.
//! * `workshop`: the threads that do what blocks: preparing, claiming, looking.
//! * `connection`: the conversation with one runner.
//! * `broom`: puts away what runners have left.

mod broom;
mod connection;
mod prepare;
mod workshop;

pub(crate) use broom::{Broom, Sweep};
pub(crate) use connection::{Connection, Heard, reconnect};
pub(crate) use prepare::{Prepare, PrepareError};
pub(crate) use workshop::{Done, Job, Workshop};
