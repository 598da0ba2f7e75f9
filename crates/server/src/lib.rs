//! The server: everything that happens to jobs, and everyone who may ask about them.
//!
//! * [`ledger`]: the one way in, and the only caller of `engine::apply`.
//! * [`dispatch`]: which queued step goes to which worker.
//! * [`link`]: the workers' WebSockets. [`http`]: the API.
//! * [`door`]: the socket while the database is waited for.
//! * [`explain`]: why a job is where it is.
//! * [`retention`]: what is old goes.
//! * [`tasks`]: the task folder and pushed tasks. [`schedule`]: what starts jobs by itself. [`access`]: tokens.

pub mod access;
pub mod app;
pub mod artifacts;
pub mod bus;
pub mod clock;
pub mod courier;
pub mod dispatch;
pub mod door;
pub mod explain;
pub mod http;
pub mod ledger;
pub mod link;
pub mod metrics;
mod origins;
pub mod random;
pub mod retention;
pub mod run;
pub mod scaler;
pub mod schedule;
pub mod sendmail;
pub mod settings;
pub mod stored;
pub mod tasks;
