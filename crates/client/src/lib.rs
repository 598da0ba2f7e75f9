//! The typed HTTP client: one method per route, live streams that survive a lost connection, errors that say what
//! to do. The command line is built on it; programs may be too.
//!
//! Every call has its limits in time and size, so that a hanging server never hangs the caller.

mod client;
mod connection;
mod download;
mod endpoint;
mod error;
mod sse;
mod stream;

pub use client::{Client, new_idempotency_key};
pub use download::Download;
pub use endpoint::{BadEndpoint, Endpoint};
pub use error::Error;
pub use stream::{EventStream, LogStream, StreamItem};
