//! The words that server, worker and runner exchange, and nothing else: no I/O, no decisions.
//!
//! * [`artifacts`]: how files that steps leave come to a server and from it.
//! * [`attempt`]: what a worker is told to execute, and what a runner says happened.
//! * [`features`]: what a worker can do that older ones cannot.
//! * [`link`]: the messages on the WebSocket between a worker and a server.
//! * [`log`]: how log lines are laid out, on the worker's disk, on the wire and in the store.
//! * [`folder`]: what lies in an attempt's folder on a worker, and the runner's control socket.
//! * [`secret`]: what a step is given besides, and nobody may see.
//! * [`state`]: what runners and workers leave for each other in a worker's state folder.
//!
//! Every format is versioned: a runner may be older than its worker, a worker older than its server.

pub mod artifacts;
pub mod attempt;
pub mod features;
pub mod folder;
pub mod link;
pub mod log;
pub mod secret;
pub mod state;
