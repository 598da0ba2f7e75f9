//! `bowline recover`: what has been silent for long, and giving it up by hand.

use std::sync::Arc;
use std::time::Duration;

use api::{Page, RecoverRequest, Stale, StaleQuery, StepState};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use engine::Time;
use http::StatusCode;
use protocol::link::LinkSettings;
use store::read::StaleAttempt;

use crate::access::Caller;
use crate::app::App;
use crate::ledger::{Command, Forsake, RecoverOrder};

use super::answer;
use super::error::ApiError;
use super::extract::{Query, RawBody, json};

/// How long is long, unless said.
const LISTED_AFTER: Duration = Duration::from_secs(300);
const CLAIMED_AFTER: Duration = Duration::from_secs(120);
const RUNNING_AFTER: Duration = Duration::from_secs(300);

/// Beats that must have been missed before anything may be given up by hand. A runner's own beat comes with its worker's, so
/// the last one that is known may be two intervals old while all is well.
const BEATS_MISSED_MIN: u32 = 3;

pub(super) async fn stale(State(app): State<Arc<App>>, Query(query): Query<StaleQuery>) -> Result<Response, ApiError> {
    let older_than = duration(query.older_than.as_deref(), LISTED_AFTER)?;
    // Nobody is named in a list: nothing is done in anybody's name.
    carry_out(&app, RecoverOrder { what: None, older_than, by: String::new() }).await
}

pub(super) async fn requeue(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    recover(&app, &caller, &body, Forsake::Claimed, CLAIMED_AFTER).await
}

pub(super) async fn fail(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    recover(&app, &caller, &body, Forsake::Running, RUNNING_AFTER).await
}

async fn recover(
    app: &App,
    caller: &Caller,
    body: &[u8],
    what: Forsake,
    unless_said: Duration,
) -> Result<Response, ApiError> {
    let request: RecoverRequest = if body.is_empty() { RecoverRequest::default() } else { json(body)? };
    let older_than = duration(request.older_than.as_deref(), unless_said.max(least(&app.link)))?;
    long_enough(older_than, &app.link)?;
    carry_out(app, RecoverOrder { what: Some(what), older_than, by: caller.name.to_string() }).await
}

/// The list as well: only the ledger knows who was heard a moment ago.
async fn carry_out(app: &App, order: RecoverOrder) -> Result<Response, ApiError> {
    let found = app.ledger.ask(|reply| Command::Recover(order, reply)).await?;
    page(found.map_err(|error| ApiError::internal(&error))?, app.clock.now())
}

/// Whoever is well is silent from one beat to the next, and a beat may be late: that is no reason to give anything up.
fn least(link: &LinkSettings) -> Duration {
    Duration::from_millis(link.heartbeat_ms.max(link.runner_heartbeat_ms)) * BEATS_MISSED_MIN
}

fn long_enough(older_than: Duration, link: &LinkSettings) -> Result<(), ApiError> {
    let least = least(link);
    if older_than >= least {
        return Ok(());
    }
    let worker = Duration::from_millis(link.heartbeat_ms);
    let runner = Duration::from_millis(link.runner_heartbeat_ms);
    Err(ApiError::bad_request(format!(
        "`older_than` is {older_than:?}, and must be at least {least:?}: {BEATS_MISSED_MIN} times the longer of the \
         heartbeat intervals of workers ({worker:?}) and of runners ({runner:?}), or what is well would be given up too"
    )))
}

fn duration(text: Option<&str>, unless_said: Duration) -> Result<Duration, ApiError> {
    let Some(text) = text else { return Ok(unless_said) };
    spec::parse_duration(text)
        .map_err(|problem| ApiError::bad_request(format!("`older_than` is not a duration: {problem}")))
}

fn page(found: Vec<StaleAttempt>, now: Time) -> Result<Response, ApiError> {
    let items: Result<Vec<Stale>, ApiError> = found.into_iter().map(|stale| shown(stale, now)).collect();
    Ok(answer(StatusCode::OK, &Page::whole(items?)))
}

fn shown(stale: StaleAttempt, now: Time) -> Result<Stale, ApiError> {
    let Some(state) = StepState::from_word(&stale.state) else {
        return Err(ApiError::internal(&format!(
            "a step of job {} is in the unknown state {}",
            stale.job, stale.state
        )));
    };
    Ok(Stale {
        job: stale.job.0,
        step: stale.step,
        state,
        attempt: stale.attempt.0,
        worker: stale.worker_name.unwrap_or_else(|| stale.worker.to_string()),
        worker_id: stale.worker.0,
        hostname: Some(stale.hostname).filter(|host| !host.is_empty()),
        last_sign: stale.last_sign.into(),
        silent_ms: u64::try_from(now.since(stale.last_sign).as_millis()).unwrap_or(u64::MAX),
    })
}
