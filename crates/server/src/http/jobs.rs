//! Looking at jobs, waiting for them, ending them.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use api::{CancelRequest, ErrorCode, Job, JobQuery, JobState, JobSummary, JobsQuery, Page};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use engine::{Event, JobId, Rejection};
use http::StatusCode;
use store::JobFilter;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::access::Caller;
use crate::app::{App, stopped};
use crate::bus::News;
use crate::ledger::{Command, EventError};

use super::error::ApiError;
use super::extract::{Path, Query, RawBody, json};
use super::follow::is_end_of;
use super::{answer, ids, view};

/// Jobs of one page, unless said.
const PAGE_DEFAULT: u32 = 50;

/// Jobs of one page, whatever is said.
const PAGE_MAX: u32 = 1_000;

pub(super) async fn list(State(app): State<Arc<App>>, Query(query): Query<JobsQuery>) -> Result<Response, ApiError> {
    let page = app.read(move |app| page(app, query)).await?;
    Ok(answer(StatusCode::OK, &page))
}

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(query): Query<JobQuery>,
) -> Result<Response, ApiError> {
    // Listened to before the first look, so that no end falls in between.
    let news = query.wait.map(|wait| (wait.0, app.bus.subscribe()));
    let (id, job) = app.read(move |app| look(app, &id)).await?;
    let job = match news {
        Some((wait, news)) => until_final(&app, id, job, wait, news).await?,
        None => job,
    };
    Ok(answer(StatusCode::OK, &job))
}

pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let request: CancelRequest = if body.is_empty() { CancelRequest::default() } else { json(&body)? };
    let id = app.read(move |app| ids::resolve(app, &id)).await?;
    let event = Event::Cancel { by: caller.name.to_string(), force: request.force };
    let answered = app.ledger.ask(|reply| Command::Event { job: id, event, reply }).await?;
    answered.map_err(|error| refused(id, &error))?;
    let job = app.read(move |app| view::job(app, id)).await?;
    Ok(answer(StatusCode::ACCEPTED, &job))
}

fn look(app: &App, id: &str) -> Result<(JobId, Job), ApiError> {
    let id = ids::resolve(app, id)?;
    Ok((id, view::job(app, id)?))
}

/// The job once it is final; or as it is when the time is over or the server stops.
async fn until_final(
    app: &Arc<App>,
    id: JobId,
    mut job: Job,
    wait: Duration,
    mut news: Receiver<Arc<News>>,
) -> Result<Job, ApiError> {
    let mut shutdown = app.shutdown.clone();
    let mut time = std::pin::pin!(tokio::time::sleep(wait));
    let mut waiting = true;
    while waiting && !job.state.is_final() {
        tokio::select! {
            () = worth_a_look(&mut news, id) => {}
            () = &mut time => waiting = false,
            () = stopped(&mut shutdown) => waiting = false,
        }
        job = app.read(move |app| view::job(app, id)).await?;
    }
    Ok(job)
}

/// Returns when the job has ended, or may have: its end may be among news that were missed.
async fn worth_a_look(news: &mut Receiver<Arc<News>>, id: JobId) {
    loop {
        match news.recv().await {
            Ok(news) if news.events.iter().any(|event| is_end_of(event, id)) => return,
            Ok(news) if news.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.jobs.contains(&id)) => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            // The ledger is gone: nothing will ever end.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn page(app: &App, query: JobsQuery) -> Result<Page<JobSummary>, ApiError> {
    let limit = match query.limit.unwrap_or(PAGE_DEFAULT) {
        0 => return Err(ApiError::bad_request("`limit` must be at least 1")),
        limit => limit.min(PAGE_MAX) as usize,
    };
    let before = match query.cursor.as_deref().map(str::parse::<JobId>) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return Err(ApiError::bad_request("`cursor` is not what an earlier page gave as `next`")),
    };
    let filter = JobFilter { state: None, task: query.task, limit, before };
    let (mut items, mut more) = (Vec::new(), false);
    for state in states(query.state.as_deref())? {
        let page = app.reader.jobs(&JobFilter { state: state.map(|s| s.word().to_owned()), ..filter.clone() })?;
        items.extend(page.items);
        more |= page.more;
    }
    items.sort_by_key(|job| Reverse(job.id));
    more |= items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|job| job.id.to_string());
    Ok(Page { items: items.into_iter().map(|row| view::summary(app, row)).collect::<Result<_, _>>()?, next })
}

/// The states that are asked for, each once; one `None` for all.
fn states(text: Option<&str>) -> Result<Vec<Option<JobState>>, ApiError> {
    let Some(text) = text else { return Ok(vec![None]) };
    let mut states = Vec::new();
    for word in text.split(',') {
        let Some(state) = JobState::from_word(word) else {
            let known: Vec<&str> = JobState::ALL.iter().map(|state| state.word()).collect();
            let message = format!("`{word}` is no state of a job");
            return Err(ApiError::bad_request(message).hint(format!("states are {}", known.join(", "))));
        };
        if !states.contains(&Some(state)) {
            states.push(Some(state));
        }
    }
    Ok(states)
}

pub(super) fn refused(id: JobId, error: &EventError) -> ApiError {
    match error {
        EventError::NoSuchJob => ids::no_such_job(&id.to_string()),
        EventError::Rejected(Rejection::JobFinal(state)) => {
            ApiError::new(ErrorCode::AlreadyFinal, format!("the job is already over: {state}"))
        }
        EventError::Rejected(rejection) => ApiError::new(ErrorCode::Conflict, rejection.to_string()),
        EventError::Away(_) => ApiError::new(ErrorCode::Unavailable, error.to_string()),
        EventError::Internal(_) => ApiError::internal(error),
    }
}
