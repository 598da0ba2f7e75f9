//! How a worker brings artifacts to a server, and gets those of earlier steps, over plain HTTP beside the link.
//!
//! A set of files has one name, the SHA-256 of its manifest (crate `pack`).
//!
//! * `POST /api/worker/artifacts/SET` with the manifest: "this is coming"; without a body: "do you have it?".
//! * `PUT /api/worker/artifacts/SET?from=N`: the bytes of its files from the Nth on, as many as one likes to send.
//! * `GET /api/worker/artifacts/SET`: the pack, from any place on (`Range`).
//!
//! Both first ones are answered with [`Have`]. A set is stored when `stored` says so, and not before.

use serde::{Deserialize, Serialize};

/// The set's name follows.
pub const ARTIFACTS_PATH: &str = "/api/worker/artifacts/";

/// How much of a set the server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Have {
    /// Bytes of its files, from the first on: send what comes after.
    pub bytes: u64,
    /// All of it, on disk, with the right hashes.
    pub stored: bool,
}
