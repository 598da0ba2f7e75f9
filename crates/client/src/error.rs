//! What can go wrong between a client and a server.

use std::error::Error as _;
use std::io;

use api::{ErrorBody, ErrorCode};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection could be made.
    #[error("cannot reach the server at {server}: {}", reason(.source))]
    Unreachable { server: String, source: io::Error },
    /// The connection broke, or fell silent, in the middle of an exchange.
    #[error("lost the connection to the server at {server}: {reason}")]
    Broken { server: String, reason: String },
    /// The token is missing, unknown, expired or of too low a role.
    #[error("the server at {server} refused {}: {}", refused(.error), .error.message)]
    Refused { server: String, error: ErrorBody },
    /// The server understood, and says no.
    #[error("{}", .error.message)]
    Api { status: u16, error: ErrorBody },
    /// What came is not an answer of Bowline's API.
    #[error("the answer from {server} makes no sense: {reason}")]
    BadAnswer { server: String, reason: String },
}

impl Error {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Unreachable { .. } => Some("is the server running? start one with `bowline up`".to_owned()),
            Error::Refused { error, .. } if is_forbidden(error) => error.hint.clone(),
            Error::Refused { .. } => Some(
                "give a valid token with --token or BOWLINE_TOKEN; `bowline up` writes the first one to admin.token in its data folder"
                    .to_owned(),
            ),
            Error::Api { error, .. } => error.hint.clone(),
            Error::BadAnswer { .. } => Some("is that address a Bowline server?".to_owned()),
            Error::Broken { .. } => None,
        }
    }

    /// The same call may go well a little later.
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Broken { .. } => true,
            Error::Api { status, .. } => matches!(status, 429 | 502 | 503 | 504),
            Error::Refused { .. } | Error::BadAnswer { .. } => false,
        }
    }

    /// The server could not be used at all, as against: it said no to this request.
    pub fn is_unreachable_or_refused(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Broken { .. } | Error::Refused { .. } | Error::BadAnswer { .. } => true,
            Error::Api { status, .. } => *status >= 500,
        }
    }

    /// The API's code, where the server answered with one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Api { error, .. } | Error::Refused { error, .. } => Some(&error.code),
            Error::Unreachable { .. } | Error::Broken { .. } | Error::BadAnswer { .. } => None,
        }
    }
}

/// The token is good, and does not allow this.
fn is_forbidden(error: &ErrorBody) -> bool {
    error.code == ErrorCode::Forbidden.word()
}

fn refused(error: &ErrorBody) -> &'static str {
    if is_forbidden(error) { "this" } else { "the token" }
}

/// The system's words without its number: "connection refused".
fn reason(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => source.to_string(),
    }
}

/// hyper's errors say little; their sources say the rest.
pub(crate) fn with_sources(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
