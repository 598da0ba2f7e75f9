//! What happens to jobs, told event by event.

mod absence;
mod amnesia;
mod budgets;
mod cancel;
mod child;
mod fan_out;
mod graph;
mod handover;
mod hearing;
mod holds;
mod hooks;
mod jobs;
mod recovery;
mod removal;
mod resolve;
mod silence;
mod timeouts;
