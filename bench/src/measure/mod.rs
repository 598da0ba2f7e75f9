//! The measurements, one to a file. Each starts what it needs and ends it.

pub(crate) mod chain;
pub(crate) mod failover;
pub(crate) mod footprint;
pub(crate) mod large;
pub(crate) mod latency;
pub(crate) mod lives;
pub(crate) mod log_lines;
pub(crate) mod pg_lives;
pub(crate) mod queued;
pub(crate) mod steps;
pub(crate) mod storm;
pub(crate) mod two_servers;
pub(crate) mod verdict;
