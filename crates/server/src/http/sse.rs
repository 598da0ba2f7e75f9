//! What all live streams share.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use http::HeaderMap;

use super::error::ApiError;

/// A comment goes out after so much silence; clients take three missing ones for a lost connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) fn respond(messages: impl Stream<Item = Event> + Send + 'static) -> Response {
    use futures_util::StreamExt as _;
    let messages = messages.map(Ok::<_, Infallible>);
    Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// The last message that the client saw, if it comes back.
pub(super) fn last_event_id<T: std::str::FromStr>(headers: &HeaderMap) -> Result<Option<T>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    match value.to_str().ok().and_then(|text| text.parse().ok()) {
        Some(id) => Ok(Some(id)),
        None => Err(ApiError::bad_request("`Last-Event-ID` is not the id of a message of this stream")),
    }
}
