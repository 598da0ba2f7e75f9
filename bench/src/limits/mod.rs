//! What this machine gives without Bowline, measured in the same run.

pub(crate) mod disk;
pub(crate) mod pgbench;
pub(crate) mod spawn;
pub(crate) mod sqlite;
