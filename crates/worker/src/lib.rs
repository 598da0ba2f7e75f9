//! The worker: the long-lived agent on a machine that has steps executed and tells a server about them.
//!
//! [`run`] is all that `bowline worker` and `bowline up` call. Decisions are pure functions and state machines, public so
//! that a simulator can drive the very same ones:
//!
//! * [`agent`]: the worker's half of the protocol. It decides nearly everything, and does nothing.
//! * [`adopt`]: what an attempt's folder says about it; [`lines`]: which connection to its runner counts.
//! * [`ship`]: which lines go to the server next; [`link::Search`]: where and when a lost link is tried again.
//! * [`state`]: whose the state folder is, and whether it is where it was made; [`shelf`]: what is kept of the past.
//!
//! The rest does, and decides nothing: `run` and `shell` (a worker's life, and the loop around the agent), the tasks and
//! threads in `link`, `ship` and `executors` (folders and runners), `depot` (files to and from servers), `enroll` (how a worker
//! gets its credential).

pub mod adopt;
pub mod agent;
mod depot;
mod enroll;
mod error;
mod executors;
pub mod lines;
pub mod link;
mod machine;
mod options;
mod run;
pub mod shelf;
mod shell;
pub mod ship;
pub mod state;

pub use agent::StopLevel;
pub use error::WorkerError;
pub use options::{CaretakerCommand, RunnerCommand, Spool, WorkerOptions, this_program};
pub use run::run;
