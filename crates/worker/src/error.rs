//! Why a worker cannot start, or cannot go on.

use std::io;
use std::path::PathBuf;

use protocol::link::RefusedCode;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum WorkerError {
    #[error("the state folder {path} cannot be used: cannot {what}: {source}")]
    State { path: PathBuf, what: &'static str, source: io::Error },
    #[error("{path} cannot be understood: {why}; it was not written by this version of bowline, or is damaged")]
    BadState { path: PathBuf, why: String },
    #[error(
        "the state folder {path} is a copy of another one, and two workers must not share an identity; start the worker on \
         the original, or make this one a worker of its own: choose an empty folder with --state and give --enroll-token"
    )]
    CopiedState { path: PathBuf },
    #[error("another worker uses the state folder {path}; stop it, or choose another folder with --state")]
    StateInUse { path: PathBuf },
    #[error(
        "this worker is not enrolled yet; give it a token with --enroll-token (make one with `bowline token create --kind enroll`)"
    )]
    NotEnrolled,
    #[error("the server refused the enroll token: {message}; make a new one with `bowline token create --kind enroll`")]
    EnrollRefused { message: String },
    #[error("no server is named; give at least one with --server")]
    NoServer,
    #[error("the server address `{address}` cannot be used: {why}")]
    BadAddress { address: String, why: String },
    #[error(
        "the server does not know this worker's credential ({path}); if the worker was removed on purpose, enrol it anew: \
         delete that file and start it with --enroll-token"
    )]
    CredentialRefused { path: PathBuf },
    #[error("cannot reach a server, and this worker was told not to reconnect: {why}")]
    Unreachable { why: String },
    #[error("the link to the server is lost, and this worker was told not to reconnect; its steps were ended")]
    LinkLost,
    #[error("this worker was removed from the server: {message}; its steps were ended")]
    Removed { message: String },
    #[error("the server refused this worker ({code:?}): {message}")]
    Refused { code: RefusedCode, message: String },
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}
