//! The API over real sockets, on a real ledger and a real SQLite file. Only the workers are hands of the test.

mod client;
mod hand;
mod site;

mod access;
mod again;
mod artifacts;
mod bad_input;
mod fleet;
mod hooks;
mod jobs;
mod limits;
mod logs;
mod outbox;
mod review;
mod secrets;
mod streams;
mod submit;
mod tasks;
