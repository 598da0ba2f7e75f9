//! `POST /api/worker/enroll`: a worker's first visit. Its bearer token is an enroll token, good for nothing else.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use protocol::link::{EnrollRequest, EnrollResponse};

use crate::app::App;

use super::answer;
use super::error::ApiError;
use super::extract::{RawBody, json};
use super::guard::bearer;

/// Names stand in tables and messages; a host's name has 64 characters at most.
const NAME_CHARS_MAX: usize = 100;

pub(super) async fn enroll(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let token = bearer(&headers)?;
    let request: EnrollRequest = json(&body)?;
    let name = request.name.trim();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control) {
        let message = format!("a worker's name is 1 to {NAME_CHARS_MAX} characters, none of them a control character");
        return Err(ApiError::bad_request(message).hint("give one with `bowline worker --name`"));
    }
    let made = app.access.enroll(token, name.to_owned(), request.state_id).await?;
    tracing::info!(worker = %made.worker, name, "a worker was enrolled");
    let response = EnrollResponse { worker: made.worker.0, credential: made.text };
    Ok(answer(StatusCode::OK, &response))
}
