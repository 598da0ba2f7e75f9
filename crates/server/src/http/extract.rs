//! Reading requests: bodies within their limit, JSON, queries and paths. Whatever is wrong is said in our own shape.

use std::time::Duration;

use api::ErrorCode;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// A task's text of one MiB still fits after JSON has escaped it.
pub(super) const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Read and thrown away before a body is refused, so that its sender gets to hear why.
const DISCARDED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A body that comes at all comes in this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The whole body.
pub(super) struct RawBody(pub Bytes);

impl<S: Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<RawBody, ApiError> {
        let read = tokio::time::timeout(BODY_TIMEOUT, whole(request.into_body())).await;
        match read {
            Ok(body) => body.map(RawBody),
            Err(_) => Err(ApiError::bad_request(format!("the body did not come within {} s", BODY_TIMEOUT.as_secs()))),
        }
    }
}

async fn whole(mut body: Body) -> Result<Bytes, ApiError> {
    let mut read = BytesMut::new();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::bad_request(format!("the body broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        bytes += data.len();
        if bytes > DISCARDED_BYTES_MAX {
            break;
        }
        if bytes <= BODY_BYTES_MAX {
            read.extend_from_slice(&data);
        }
    }
    if bytes > BODY_BYTES_MAX {
        let message = format!("the body is larger than the {BODY_BYTES_MAX} bytes that are taken");
        return Err(ApiError::new(ErrorCode::TooLarge, message));
    }
    Ok(read.freeze())
}

/// A body of JSON.
pub(super) fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        use serde_json::error::Category;
        let message = match error.classify() {
            Category::Data => format!("the body is not what this takes: {error}"),
            Category::Eof if body.is_empty() => "the body is empty, and this takes JSON".to_owned(),
            Category::Io | Category::Syntax | Category::Eof => format!("the body is not JSON: {error}"),
        };
        ApiError::bad_request(message)
    })
}

/// What stands after the `?`.
pub(super) struct Query<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, ApiError> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|query| Query(query.0))
            .map_err(|rejection| ApiError::bad_request(rejection.body_text()))
    }
}

/// The variable parts of the path, decoded.
pub(super) struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, ApiError> {
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|path: axum::extract::Path<T>| Path(path.0))
            .map_err(|rejection| ApiError::bad_request(rejection.body_text()))
    }
}
