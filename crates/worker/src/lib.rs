//! The worker: the long-lived agent on a machine that has steps executed and tells a server about them.
//!
//! [`run`] is all that `bowline worker` and `bowline up` call. Decisions are in [`agent`], which does nothing; doing
//! is in the rest, which decides nothing:
//!
//! * `run` and `shell`: the life of a worker, and the loop around the agent.
//! * `link`: the WebSocket to a server, for ever; `enroll`: how a worker gets its credential.
//! * `executors`: folders and runners; `adopt`: what a folder says about its attempt.
//! * `ship`: logs, from the runners' files to the link.
//! * `state`: the folder that makes a worker the same worker after a restart.

pub mod adopt;
pub mod agent;
mod enroll;
mod error;
mod executors;
pub mod link;
mod machine;
mod options;
mod run;
mod shell;
pub mod ship;
mod state;

pub use agent::StopLevel;
pub use error::WorkerError;
pub use options::{CaretakerCommand, RunnerCommand, Spool, WorkerOptions, this_program};
pub use run::run;
