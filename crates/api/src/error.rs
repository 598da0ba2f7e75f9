//! Every error that the API answers: one code each, with its status and what to do about it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::task::Diagnostic;

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorAnswer {
    pub error: ErrorBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// For programs: a word of [`ErrorCode`]. Readers may meet newer ones.
    pub code: String,
    /// For people: what happened, and why.
    pub message: String,
    /// What to do.
    #[serde(default)]
    pub hint: Option<String>,
    /// Every problem of a task's text, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The request itself cannot be understood.
    BadRequest,
    /// An input is missing, unknown or of the wrong type.
    InvalidInput,
    /// The task's text has errors.
    InvalidTask,
    /// Understood, and not built yet.
    NotSupported,
    /// A step is to be given a secret that the server does not have.
    MissingSecret,
    Unauthorized,
    Forbidden,
    NotFound,
    /// A prefix that fits several ids.
    AmbiguousId,
    MethodNotAllowed,
    /// It is already over, so it cannot be changed.
    AlreadyFinal,
    /// It cannot stand beside what is already there.
    Conflict,
    /// The same idempotency key came with another request.
    IdempotencyConflict,
    /// The job's concurrency group has no room, and its task does not want to wait.
    GroupFull,
    TooLarge,
    TooManyRequests,
    Internal,
    /// Starting, stopping, or the store is away.
    Unavailable,
}

impl ErrorCode {
    pub const ALL: [ErrorCode; 18] = [
        ErrorCode::BadRequest,
        ErrorCode::InvalidInput,
        ErrorCode::InvalidTask,
        ErrorCode::NotSupported,
        ErrorCode::MissingSecret,
        ErrorCode::Unauthorized,
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::AmbiguousId,
        ErrorCode::MethodNotAllowed,
        ErrorCode::AlreadyFinal,
        ErrorCode::Conflict,
        ErrorCode::IdempotencyConflict,
        ErrorCode::GroupFull,
        ErrorCode::TooLarge,
        ErrorCode::TooManyRequests,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ];

    pub fn word(self) -> &'static str {
        match self {
            ErrorCode::BadRequest => "bad_request",
            ErrorCode::InvalidInput => "invalid_input",
            ErrorCode::InvalidTask => "invalid_task",
            ErrorCode::NotSupported => "not_supported",
            ErrorCode::MissingSecret => "missing_secret",
            ErrorCode::Unauthorized => "unauthorized",
            ErrorCode::Forbidden => "forbidden",
            ErrorCode::NotFound => "not_found",
            ErrorCode::AmbiguousId => "ambiguous_id",
            ErrorCode::MethodNotAllowed => "method_not_allowed",
            ErrorCode::AlreadyFinal => "already_final",
            ErrorCode::Conflict => "conflict",
            ErrorCode::IdempotencyConflict => "idempotency_conflict",
            ErrorCode::GroupFull => "group_full",
            ErrorCode::TooLarge => "too_large",
            ErrorCode::TooManyRequests => "too_many_requests",
            ErrorCode::Internal => "internal",
            ErrorCode::Unavailable => "unavailable",
        }
    }

    pub fn from_word(word: &str) -> Option<ErrorCode> {
        ErrorCode::ALL.into_iter().find(|code| code.word() == word)
    }

    /// The HTTP status that goes with it.
    pub fn status(self) -> u16 {
        match self {
            ErrorCode::BadRequest => 400,
            ErrorCode::Unauthorized => 401,
            ErrorCode::Forbidden => 403,
            ErrorCode::NotFound => 404,
            ErrorCode::MethodNotAllowed => 405,
            ErrorCode::AmbiguousId
            | ErrorCode::AlreadyFinal
            | ErrorCode::Conflict
            | ErrorCode::GroupFull
            | ErrorCode::IdempotencyConflict => 409,
            ErrorCode::TooLarge => 413,
            ErrorCode::InvalidInput | ErrorCode::InvalidTask | ErrorCode::NotSupported | ErrorCode::MissingSecret => {
                422
            }
            ErrorCode::TooManyRequests => 429,
            ErrorCode::Internal => 500,
            ErrorCode::Unavailable => 503,
        }
    }

    /// What to do, where the code alone tells.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            ErrorCode::Unauthorized => Some("send a valid token as `Authorization: Bearer TOKEN`"),
            ErrorCode::Forbidden => Some("use a token with a higher role"),
            ErrorCode::AmbiguousId => Some("give more of the id"),
            ErrorCode::IdempotencyConflict => Some("use a new Idempotency-Key for a new request"),
            ErrorCode::TooManyRequests | ErrorCode::Unavailable => Some("try again in a moment"),
            ErrorCode::GroupFull => {
                Some("wait for the end of those that are in it; `when_full: queue` would do that for you")
            }
            ErrorCode::Internal => Some("the server's log says more"),
            ErrorCode::BadRequest | ErrorCode::MethodNotAllowed => Some("see /api/openapi.json"),
            ErrorCode::InvalidInput
            | ErrorCode::InvalidTask
            | ErrorCode::NotSupported
            | ErrorCode::MissingSecret
            | ErrorCode::NotFound
            | ErrorCode::AlreadyFinal
            | ErrorCode::Conflict
            | ErrorCode::TooLarge => None,
        }
    }
}

impl ErrorBody {
    /// With the code's own hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ErrorBody {
        ErrorBody {
            code: code.word().to_owned(),
            message: message.into(),
            hint: code.hint().map(str::to_owned),
            diagnostics: Vec::new(),
        }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> ErrorBody {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn with_diagnostics(mut self, diagnostics: Vec<Diagnostic>) -> ErrorBody {
        self.diagnostics = diagnostics;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinct_and_statuses_are_errors() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_word(code.word()), Some(code));
            assert!((400..600).contains(&code.status()));
        }
    }

    #[test]
    fn the_shape_is_the_documented_one() {
        let answer = ErrorAnswer { error: ErrorBody::new(ErrorCode::NotFound, "no job `x`").with_hint("look") };
        assert_eq!(
            serde_json::to_string(&answer).expect("json"),
            r#"{"error":{"code":"not_found","message":"no job `x`","hint":"look"}}"#
        );
    }
}
