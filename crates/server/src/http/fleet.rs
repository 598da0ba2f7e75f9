//! What operators do to the fleet: drain, remove, pause, resume. `bowline worker-drain` and its siblings come here.

use std::sync::Arc;

use api::{Dispatch, DrainRequest, ErrorCode, Removal};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use engine::WorkerId;
use http::StatusCode;
use store::rows::WorkerRow;

use crate::access::Caller;
use crate::app::App;
use crate::dispatch::Pause;
use crate::ledger::{Command, FleetAnswer, FleetError, FleetOrder};

use super::error::ApiError;
use super::extract::{Path, RawBody, json};
use super::{answer, workers};

pub(super) async fn drain(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let request: DrainRequest = if body.is_empty() { DrainRequest::default() } else { json(&body)? };
    let row = app.read(move |app| find(app, &id)).await?;
    order(&app, FleetOrder::Drain { worker: row.id, on: request.draining }).await?;
    let worker = workers::one(&app, row.id).await?.ok_or_else(|| no_such_worker(&row.name))?;
    Ok(answer(StatusCode::OK, &worker))
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let row = app.read(move |app| find(app, &id)).await?;
    let done = order(&app, FleetOrder::Remove { worker: row.id, by: caller.name.to_string() }).await?;
    let removal = Removal {
        id: row.id.0,
        name: row.name.clone(),
        hostname: Some(&row.hostname).filter(|host| !host.is_empty()).cloned(),
        offers: done.offers,
        attempts: done.attempts,
    };
    Ok(answer(StatusCode::OK, &removal))
}

pub(super) async fn dispatch(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    now(&app).await
}

pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, ApiError> {
    order(&app, FleetOrder::Pause { by: caller.name.to_string() }).await?;
    now(&app).await
}

pub(super) async fn resume(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    order(&app, FleetOrder::Resume).await?;
    now(&app).await
}

/// In the API's words.
pub(super) fn paused(pause: Option<Pause>) -> Dispatch {
    match pause {
        Some(pause) => Dispatch { paused: true, since: Some(pause.since.into()), by: Some(pause.by) },
        None => Dispatch::default(),
    }
}

async fn now(app: &App) -> Result<Response, ApiError> {
    let pause = app.ledger.inspect(|roster| roster.pause().cloned()).await?;
    Ok(answer(StatusCode::OK, &paused(pause)))
}

async fn order(app: &App, order: FleetOrder) -> Result<FleetAnswer, ApiError> {
    let done = app.ledger.ask(|reply| Command::Fleet(order, reply)).await?;
    done.map_err(|error| match error {
        FleetError::NoSuchWorker => ApiError::not_found("there is no such worker any more"),
        error @ FleetError::Internal(_) => ApiError::internal(&error),
    })
}

/// A worker by its id, or by a name that only one has.
fn find(app: &App, text: &str) -> Result<Arc<WorkerRow>, ApiError> {
    let id = text.parse::<WorkerId>().ok();
    let mut found = app.reader.workers()?;
    found.retain(|row| row.removed_at.is_none() && (Some(row.id) == id || row.name == text));
    match found.len() {
        0 => Err(no_such_worker(text)),
        1 => Ok(found.remove(0)),
        _ => {
            let ids: Vec<String> = found.iter().map(|row| row.id.to_string()).collect();
            let message = format!("{} workers are called `{text}`: {}", ids.len(), ids.join(", "));
            Err(ApiError::new(ErrorCode::AmbiguousId, message).hint("give the id of the one that you mean"))
        }
    }
}

fn no_such_worker(text: &str) -> ApiError {
    ApiError::not_found(format!("there is no worker `{text}`")).hint("`bowline workers` lists them")
}
