//! Every answer that is not a success, in the one shape that the API has for it.

use std::fmt::Display;

use api::{ErrorAnswer, ErrorBody, ErrorCode};
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use store::StoreError;

use crate::access::AccessError;
use crate::ledger::LedgerDown;

#[derive(Debug)]
pub struct ApiError {
    code: ErrorCode,
    /// On the heap: most answers are no errors, and every `Result` carries the room for one.
    body: Box<ErrorBody>,
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        ApiError { code, body: Box::new(ErrorBody::new(code, message)) }
    }

    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(ErrorCode::BadRequest, message)
    }

    pub fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(ErrorCode::NotFound, message)
    }

    /// A mistake of ours: told in full to the log, and to the caller only that it happened.
    pub fn internal(error: &dyn Display) -> ApiError {
        tracing::error!(%error, "a request could not be answered");
        ApiError::new(ErrorCode::Internal, "the server could not answer, and it is not your fault")
    }

    pub fn unauthorized() -> ApiError {
        ApiError::new(ErrorCode::Unauthorized, "this needs a valid token, and none came with the request")
    }

    pub fn is(&self, code: ErrorCode) -> bool {
        self.code == code
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> ApiError {
        self.body.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn diagnostics(mut self, diagnostics: Vec<api::Diagnostic>) -> ApiError {
        self.body.diagnostics = diagnostics;
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(ErrorAnswer { error: *self.body })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match error {
            StoreError::Unavailable { .. } => {
                tracing::warn!(%error, "a request could not be answered");
                ApiError::new(ErrorCode::Unavailable, "the server cannot reach its database now")
            }
            error => ApiError::internal(&error),
        }
    }
}

impl From<LedgerDown> for ApiError {
    fn from(down: LedgerDown) -> ApiError {
        ApiError::new(ErrorCode::Unavailable, down.to_string())
    }
}

impl From<AccessError> for ApiError {
    fn from(error: AccessError) -> ApiError {
        match error {
            AccessError::Denied => ApiError::new(
                ErrorCode::Unauthorized,
                "the token is not valid here: it is unknown, expired, revoked, used up or meant for something else",
            ),
            AccessError::Store(error) => error.into(),
            AccessError::Ledger(down) => down.into(),
            error @ (AccessError::NoChance(_) | AccessError::Broken(_)) => ApiError::internal(&error),
        }
    }
}

/// No route has this path.
pub(super) async fn no_such_path(uri: http::Uri) -> ApiError {
    ApiError::not_found(format!("there is nothing at {}", uri.path())).hint("see /api/openapi.json for what there is")
}

/// The path exists, the method does not.
pub(super) async fn no_such_method(method: http::Method, uri: http::Uri) -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, format!("{} does not take {method}", uri.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_that_cannot_commit_is_unavailable_and_says_why() {
        let error = ApiError::from(LedgerDown::WentAway("the disk is full".into()));
        assert_eq!(
            error.body.message,
            "the database does not take commits at the moment: the disk is full; what was asked may still be carried out"
        );
        assert_eq!(error.into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
