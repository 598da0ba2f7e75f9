//! The ways in which a worker has steps executed. For now one: processes on its own machine.

pub(crate) mod process;
