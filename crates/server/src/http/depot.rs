//! Artifacts to and from workers, who show their credential: `/api/worker/artifacts/SET`.

use std::sync::Arc;
use std::time::Duration;

use api::ErrorCode;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use pack::{MANIFEST_BYTES_MAX, SetId};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::app::App;
use crate::artifacts::{Depot, DepotError, UPLOADS_MAX};

use super::answer;
use super::error::ApiError;
use super::extract::{Path, Query};
use super::guard::bearer;
use super::pieces;

/// Frames that wait for the disk; a sender that is faster is slowed down.
const WAITING_FRAMES: usize = 8;
/// A sender that says nothing for so long has gone.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Deserialize)]
pub(super) struct From {
    from: u64,
}

pub(super) async fn announce(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(set): Path<String>,
    body: Body,
) -> Result<Response, ApiError> {
    let id = admit(&app, &headers, &set).await?;
    let text = manifest(body).await?;
    let have = app
        .read(move |app| {
            let depot = &app.artifacts;
            let have = if text.is_empty() { depot.have(id) } else { depot.announce(id, &text) };
            if matches!(have, Err(DepotError::SetTooLarge { .. } | DepotError::Full { .. })) {
                app.metrics.artifacts_refused.inc();
            }
            have.map_err(|error| refused(&error))
        })
        .await?;
    Ok(answer(StatusCode::OK, &have))
}

pub(super) async fn put(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(set): Path<String>,
    Query(From { from }): Query<From>,
    body: Body,
) -> Result<Response, ApiError> {
    let id = admit(&app, &headers, &set).await?;
    let Some(_place) = app.artifacts.place() else {
        let message = format!("{UPLOADS_MAX} sets of artifacts are being sent already");
        return Err(ApiError::new(ErrorCode::TooManyRequests, message));
    };
    let (frames, queue) = mpsc::channel(WAITING_FRAMES);
    let depot = app.artifacts.clone();
    let writing = tokio::task::spawn_blocking(move || write(&depot, id, from, queue));
    let sent = forward(body, frames).await;
    let have = writing.await.map_err(|error| ApiError::internal(&error))?.map_err(|error| refused(&error))?;
    // What came before it broke off is there all the same.
    sent?;
    Ok(answer(StatusCode::OK, &have))
}

pub(super) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(set): Path<String>,
) -> Result<Response, ApiError> {
    let id = admit(&app, &headers, &set).await?;
    let (file, layout) = app.read(move |app| app.artifacts.read(id).map_err(|error| refused(&error))).await?;
    let whole = pieces::Piece { from: 0, bytes: layout.bytes(), etag: set };
    pieces::send(file, &whole, &headers)
}

/// The name of the set, for a worker.
async fn admit(app: &Arc<App>, headers: &HeaderMap, set: &str) -> Result<SetId, ApiError> {
    let worker = app.access.member(bearer(headers)?).await?;
    if worker.removed_at.is_some() {
        return Err(ApiError::new(ErrorCode::Forbidden, "this worker was removed"));
    }
    set.parse().map_err(|_| ApiError::bad_request(format!("`{set}` is no name of a set of artifacts")))
}

async fn manifest(mut body: Body) -> Result<Vec<u8>, ApiError> {
    let mut text = Vec::new();
    while let Some(frame) = next_frame(&mut body).await? {
        text.extend_from_slice(&frame);
        if text.len() > MANIFEST_BYTES_MAX {
            let message = format!("the manifest is larger than the {MANIFEST_BYTES_MAX} bytes that are taken");
            return Err(ApiError::new(ErrorCode::TooLarge, message));
        }
    }
    Ok(text)
}

async fn forward(mut body: Body, frames: mpsc::Sender<bytes::Bytes>) -> Result<(), ApiError> {
    while let Some(frame) = next_frame(&mut body).await? {
        // The disk has refused; the writer says why.
        if frames.send(frame).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

async fn next_frame(body: &mut Body) -> Result<Option<bytes::Bytes>, ApiError> {
    loop {
        let frame = tokio::time::timeout(FRAME_TIMEOUT, body.frame()).await;
        let Some(frame) = frame.map_err(|_| ApiError::bad_request("the body stopped coming"))? else {
            return Ok(None);
        };
        let frame = frame.map_err(|error| ApiError::bad_request(format!("the body broke off: {error}")))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

fn write(
    depot: &Depot,
    id: SetId,
    from: u64,
    mut frames: mpsc::Receiver<bytes::Bytes>,
) -> Result<protocol::artifacts::Have, DepotError> {
    let mut upload = depot.upload(id, from)?;
    while let Some(frame) = frames.blocking_recv() {
        upload.write(&frame)?;
    }
    upload.finish()
}

/// What a worker does about each: `conflict` and `unavailable` pass, `not_found` means from the beginning, the rest is for good.
fn refused(error: &DepotError) -> ApiError {
    let code = match error {
        DepotError::SetTooLarge { .. } | DepotError::Full { .. } => ErrorCode::TooLarge,
        DepotError::Manifest(_) | DepotError::TooMuch => ErrorCode::BadRequest,
        DepotError::Unknown | DepotError::Differs(_) => ErrorCode::NotFound,
        DepotError::Gap { .. } | DepotError::Busy => ErrorCode::Conflict,
        DepotError::Crowded { .. } => ErrorCode::Unavailable,
        DepotError::Damaged(_) | DepotError::Io(_) => {
            tracing::warn!(%error, "artifacts could not be stored or read");
            ErrorCode::Unavailable
        }
    };
    ApiError::new(code, error.to_string())
}
