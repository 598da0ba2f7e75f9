//! `bowline db prune`, through a server that runs: what would go, letting it go, and how far that has got.

use std::sync::Arc;
use std::time::Duration;

use api::{PruneRequest, Pruned, Retention, Timestamp};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use crate::access::Caller;
use crate::app::App;
use crate::ledger::{Command, PruneOrder};
use crate::retention::{self, Progress, Tally};

use super::error::ApiError;
use super::extract::{RawBody, json};
use super::{answer, guard};

pub(super) async fn get(State(app): State<Arc<App>>) -> Response {
    answer(StatusCode::OK, &shown(app.metrics.retention(), false))
}

pub(super) async fn prune(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    guard::want_admin(&caller, "delete what is old")?;
    let request: PruneRequest = if body.is_empty() { PruneRequest::default() } else { json(&body)? };
    let older_than = request.older_than.as_deref().map(duration).transpose()?;
    if request.dry_run {
        let tally = app.read(move |app| Ok(would_go(app, older_than)?)).await?;
        return Ok(answer(StatusCode::OK, &shown(Progress { tally, ..Progress::default() }, true)));
    }
    tracing::info!(by = %caller.name, ?older_than, "what is old is to go now");
    let progress = app.ledger.ask(|reply| Command::Prune(PruneOrder { older_than }, reply)).await?;
    Ok(answer(StatusCode::ACCEPTED, &shown(progress, false)))
}

fn would_go(app: &App, older_than: Option<Duration>) -> Result<Tally, store::StoreError> {
    let (now, heard) = (app.clock.now(), app.clocks()?.heard);
    let by_rules = app.retention.cutoffs(now, heard);
    let cutoffs = older_than.map_or(by_rules, |age| by_rules.older_than(now - age));
    retention::estimate(&*app.reader, cutoffs, &|_| false)
}

fn duration(text: &str) -> Result<Duration, ApiError> {
    spec::parse_duration(text)
        .map_err(|problem| ApiError::bad_request(format!("`older_than` is not a duration: {problem}")))
}

/// None before the first run has ended.
pub(super) fn last(progress: &Progress) -> Option<Retention> {
    let Tally { jobs, log_bytes, workers, .. } = progress.tally;
    progress.ended_at.map(|at| Retention { at: at.into(), jobs, log_bytes, workers })
}

pub fn shown(progress: Progress, dry_run: bool) -> Pruned {
    let Progress { started_at, ended_at, tally } = progress;
    Pruned { dry_run, started_at: started_at.map(Timestamp::from), ended_at: ended_at.map(Timestamp::from), tally }
}
