//! The door: every route behind it wants a good API token.

use std::sync::Arc;

use api::{ErrorCode, Role};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, Method, header};

use crate::access::Caller;
use crate::app::App;

use super::error::ApiError;

/// Lets a request with a good API token through, and tells the handler who it is.
pub(super) async fn want_token(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let caller = app.access.caller(bearer(request.headers())?).await?;
    if caller.role == Role::Viewer && request.method() != Method::GET {
        return Err(ApiError::new(ErrorCode::Forbidden, "a viewer's token may only look"));
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// The token that a request brings.
pub fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let value = headers.get(header::AUTHORIZATION).ok_or_else(ApiError::unauthorized)?;
    let text = value.to_str().map_err(|_| ApiError::unauthorized())?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty() => Ok(token.trim()),
        _ => Err(ApiError::unauthorized()),
    }
}

pub(super) fn want_admin(caller: &Caller, what: &str) -> Result<(), ApiError> {
    match caller.role {
        Role::Admin => Ok(()),
        Role::Viewer | Role::Operator => {
            let message = format!("only an admin's token may {what}; this one's role is {}", caller.role.word());
            Err(ApiError::new(ErrorCode::Forbidden, message))
        }
    }
}
