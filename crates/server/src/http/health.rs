//! Is the process there, can it work, and how much does it do?

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::{Health, Readiness, Sweep, Timestamp};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{StatusCode, header};

use crate::app::App;
use crate::dispatch::Pause;
use crate::ledger::stored_pause;
use crate::metrics::Metrics;

use super::error::ApiError;
use super::{answer, fleet, retention};

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Figures, and whether the server is ready, are answered even while the database is not.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// The process answers; nothing else is looked at, so that trouble elsewhere gets nobody killed.
pub(crate) async fn healthz() -> Response {
    answer(StatusCode::OK, &Health { status: "ok".to_owned(), version: VERSION.to_owned() })
}

pub(super) async fn readyz(State(app): State<Arc<App>>) -> Response {
    let mut problems = Vec::new();
    if app.is_stopping() {
        problems.push("the server is stopping".to_owned());
    }
    // Anybody may ask, so the reason names no place; the log has all of it. Of a database that takes nothing nothing more is asked.
    let pause = match app.ledger.trouble() {
        Some(why) => Err(format!("the database does not take commits: {why}")),
        None => pause(&app).await.map_err(|why| format!("the database cannot be read: {why}")),
    };
    // A pause is an operator's wish, not a problem.
    let dispatch = pause.map(fleet::paused).map_err(|problem| problems.push(problem)).ok();
    let status = if problems.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let (ready, sweep) = (problems.is_empty(), last_sweep(&app.metrics));
    let retention = retention::last(&app.metrics.retention());
    answer(status, &Readiness { ready, problems, sweep, retention, dispatch })
}

/// Whether nothing is handed out; else why nobody knows.
async fn pause(app: &Arc<App>) -> Result<Option<Pause>, &'static str> {
    let look = app.read(|app| Ok(stored_pause(&*app.reader)));
    match tokio::time::timeout(LOOK_WITHIN, look).await {
        Ok(Ok(Ok(pause))) => Ok(pause),
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "the database cannot be read");
            Err(error.in_short())
        }
        Ok(Err(_)) => Err("the server has lost a thread"),
        Err(_) => Err(store::SLOW),
    }
}

/// None before the first.
fn last_sweep(metrics: &Metrics) -> Option<Sweep> {
    let at = metrics.last_sweep_ms.get();
    let duration_ms = u64::try_from(metrics.sweep_took_ms.get()).unwrap_or(0);
    (at > 0).then(|| Sweep { at: Timestamp::from_micros(at * 1_000), duration_ms })
}

pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    app.metrics.depot(app.artifacts.stored());
    // Where the rows cannot be read in time, the last figures stand.
    let look = app.read(|app| Ok(app.reader.outbox_counts()?));
    if let Ok(Ok(counts)) = tokio::time::timeout(LOOK_WITHIN, look).await {
        app.metrics.outbox(counts);
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response()
}

/// The same for every request, so it is made once.
pub(super) async fn openapi() -> Result<Response, ApiError> {
    static DESCRIPTION: OnceLock<Bytes> = OnceLock::new();
    let description = match DESCRIPTION.get() {
        Some(description) => description.clone(),
        None => {
            let made = api::openapi().to_json().map_err(|error| ApiError::internal(&error))?;
            DESCRIPTION.get_or_init(|| made.into()).clone()
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], description).into_response())
}
