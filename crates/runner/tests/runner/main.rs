//! The runner as a real process with real steps. `harness` plays the worker.

mod cleanups;
mod ends;
mod guards;
mod harness;
mod leases;
mod logs;
mod nursery;
mod secrets;
mod starts;
mod stops;
mod workers;
