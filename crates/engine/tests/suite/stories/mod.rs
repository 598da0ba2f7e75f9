//! What happens to jobs, told event by event.

mod absence;
mod amnesia;
mod budgets;
mod cancel;
mod child;
mod cleanup;
mod fan_out;
mod graph;
mod groups;
mod handover;
mod hearing;
mod holds;
mod hooks;
mod jobs;
mod notices;
mod recovery;
mod removal;
mod resolve;
mod restored;
mod silence;
mod timeouts;
