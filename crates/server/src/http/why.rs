//! TEMP
use axum::response::Response;
use super::error::ApiError;
pub(super) async fn get() -> Result<Response, ApiError> { Err(ApiError::not_found("soon")) }
