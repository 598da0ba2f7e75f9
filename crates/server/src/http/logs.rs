//! Logs of steps, in pages and live. The step `_server` stands for the job's own events.

use std::sync::Arc;

use api::log::StreamId;
use api::{LogPage, LogsQuery, StepState};
use axum::extract::State;
use axum::response::Response;
use engine::definition::Definition;
use engine::{JobId, StepIx};
use http::{HeaderMap, StatusCode};

use crate::app::App;

use super::error::ApiError;
use super::extract::{Path, Query};
use super::log_read::{self, After, Subject, Trailing};
use super::log_stream::{Begin, StepLog};
use super::{answer, ids, server_log, sse};

/// The step under whose name a job's own events are found.
const SERVER: &str = "_server";

/// Lines of one page, unless said.
const LIMIT_DEFAULT: u32 = 1_000;

/// Lines of one page, whatever is said.
const LIMIT_MAX: u32 = 10_000;

pub(super) async fn page(
    State(app): State<Arc<App>>,
    Path((id, step)): Path<(String, String)>,
    Query(query): Query<LogsQuery>,
) -> Result<Response, ApiError> {
    let limit = limit(&query)?;
    let page = app
        .read(move |app| match find(app, &id, &step)? {
            Log::Server(job) => server_log::page(app, job, &query, limit),
            Log::Step(job, ix) => step_page(app, job, ix, &query, limit),
        })
        .await?;
    Ok(answer(StatusCode::OK, &page))
}

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Path((id, step)): Path<(String, String)>,
    headers: HeaderMap,
    Query(query): Query<LogsQuery>,
) -> Result<Response, ApiError> {
    limit(&query)?;
    let seen: Option<StreamId> = sse::last_event_id(&headers)?;
    match app.read(move |app| find(app, &id, &step)).await? {
        Log::Server(job) => server_log::stream(app, job, &query, seen).await,
        Log::Step(job, ix) => {
            let begin = begin(&query, seen);
            Ok(StepLog::open(app, job, ix, query.attempt, begin).await?.respond())
        }
    }
}

enum Log {
    Server(JobId),
    Step(JobId, StepIx),
}

fn find(app: &App, id: &str, step: &str) -> Result<Log, ApiError> {
    let id = ids::resolve(app, id)?;
    let hash = app.reader.definition_of(id)?.ok_or_else(|| ids::no_such_job(&id.to_string()))?;
    if step == SERVER {
        return Ok(Log::Server(id));
    }
    let definition = definition(app, id, hash)?;
    let of_file = definition.find(step);
    let found = if of_file.is_none() { app.reader.step_named(id, step)? } else { of_file };
    match found {
        Some(ix) => Ok(Log::Step(id, ix)),
        None => Err(ApiError::not_found(format!("the job has no step `{step}`"))
            .hint(format!("`bowline job {id}` lists its steps; `{SERVER}` is the job's own log"))),
    }
}

/// The whole job is read only where its definition is not at hand: a job may have thousands of steps.
fn definition(app: &App, id: JobId, hash: [u8; 32]) -> Result<Arc<Definition>, ApiError> {
    if let Some(known) = app.definitions.known(&hash) {
        return Ok(known);
    }
    let stored = app.reader.job(id)?.ok_or_else(|| ids::no_such_job(&id.to_string()))?;
    app.definitions.get(&stored.definition).map_err(|error| ApiError::internal(&error))
}

fn step_page(app: &App, job: JobId, ix: StepIx, query: &LogsQuery, limit: usize) -> Result<LogPage, ApiError> {
    let attempts = attempts(app, job, ix)?;
    let Some(subject) = choose(&attempts, query.attempt)? else {
        return Ok(LogPage { lines: Vec::new(), next: 1, complete: is_final(app, job, ix)? });
    };
    let reader = &*app.reader;
    let from = match query.tail {
        Some(tail) => log_read::begin_of_tail(reader, subject, tail)?,
        None => query.from.unwrap_or(1),
    };
    let read = log_read::read(reader, subject, After::before_line(from), limit, Trailing::WithNext)?;
    Ok(LogPage { lines: read.lines, next: read.reached.seq + 1, complete: read.complete })
}

/// The step's attempts, the oldest first.
pub(super) fn attempts(app: &App, job: JobId, ix: StepIx) -> Result<Vec<Subject>, ApiError> {
    let step = app.reader.step(job, ix)?;
    let attempts = step.into_iter().flat_map(|step| step.attempts);
    Ok(attempts.map(|(id, number)| Subject { id, number }).collect())
}

/// The attempt that is asked for; the latest, if none is; none, if there is none yet.
pub(super) fn choose(attempts: &[Subject], number: Option<u32>) -> Result<Option<Subject>, ApiError> {
    let Some(number) = number else { return Ok(attempts.last().copied()) };
    match attempts.iter().find(|attempt| attempt.number == number) {
        Some(attempt) => Ok(Some(*attempt)),
        None => {
            let message = format!("the step has had no attempt {number}");
            Err(ApiError::not_found(message).hint(format!("it has had {} so far", attempts.len())))
        }
    }
}

pub(super) fn is_final(app: &App, job: JobId, ix: StepIx) -> Result<bool, ApiError> {
    let step = app.reader.step(job, ix)?.ok_or_else(|| ids::no_such_job(&job.to_string()))?;
    let state = StepState::from_word(&step.state);
    Ok(state.is_some_and(StepState::is_final))
}

fn limit(query: &LogsQuery) -> Result<usize, ApiError> {
    match query.limit.unwrap_or(LIMIT_DEFAULT) {
        0 => Err(ApiError::bad_request("`limit` must be at least 1")),
        limit => Ok(limit.min(LIMIT_MAX) as usize),
    }
}

/// Where a stream begins: after what was seen, unless another attempt is asked for now.
fn begin(query: &LogsQuery, seen: Option<StreamId>) -> Begin {
    match (seen, query.tail) {
        (Some(seen), _) if query.attempt.is_none_or(|number| number == seen.attempt) => Begin::After(seen),
        (_, Some(tail)) => Begin::Tail(tail),
        (_, None) => Begin::From(query.from.unwrap_or(1)),
    }
}
