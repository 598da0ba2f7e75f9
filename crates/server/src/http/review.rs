//! A person's word on a step that waits for one.

use std::sync::Arc;

use api::{ApproveRequest, RejectRequest};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use engine::{Event, Job, JobId, Rejection, StateName, StepIx};
use http::StatusCode;

use crate::access::Caller;
use crate::app::App;
use crate::ledger::{Command, EventError};

use super::error::ApiError;
use super::extract::{Path, RawBody, json};
use super::{again, answer, jobs, view};

/// A comment is a sentence or two: it stands in the job's history.
const COMMENT_CHARS_MAX: usize = 2_000;

/// Of jobs that do a step, so many are looked at for one that waits.
const LOOKS_MAX: usize = 20;

pub(super) async fn approve(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((id, step)): Path<(String, String)>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let request: ApproveRequest = if body.is_empty() { ApproveRequest::default() } else { json(&body)? };
    let comment = comment("comment", request.comment)?;
    say(&app, id, step, |step| Event::Approve { step, by: caller.name.to_string(), comment }).await
}

pub(super) async fn reject(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((id, step)): Path<(String, String)>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let request: RejectRequest = if body.is_empty() { RejectRequest::default() } else { json(&body)? };
    let reason = comment("reason", request.reason)?;
    say(&app, id, step, |step| Event::Reject { step, by: caller.name.to_string(), reason }).await
}

async fn say(
    app: &Arc<App>,
    id: String,
    step: String,
    event: impl FnOnce(engine::StepIx) -> Event,
) -> Result<Response, ApiError> {
    let (job, step) = app.read(move |app| again::find(app, &id, &step)).await?;
    let event = event(step);
    let answered = app.ledger.ask(|reply| Command::Event { job, event, reply }).await?;
    if let Err(error) = answered {
        let answer = refused(job, &error);
        let elsewhere = match error {
            EventError::Rejected(Rejection::NotNow { .. }) => app.read(move |app| elsewhere(app, job, step)).await?,
            _ => None,
        };
        return Err(match elsewhere {
            Some(hint) => answer.hint(hint),
            None => answer,
        });
    }
    let job = app.read(move |app| view::job(app, job)).await?;
    Ok(answer(StatusCode::OK, &job))
}

fn refused(job: engine::JobId, error: &EventError) -> ApiError {
    let answer = jobs::refused(job, error);
    match error {
        // The token is good, and its role is: it is about who asks.
        EventError::Rejected(Rejection::OwnJob { .. }) => {
            answer.hint("somebody else has to, with a token of their own")
        }
        EventError::Rejected(Rejection::MayStillRun { .. }) => answer.hint(
            "make sure that nothing of it runs any more, then say `bowline resolve ID STEP --rerun --confirm-dead`",
        ),
        EventError::Rejected(Rejection::ApprovedBefore { .. }) => answer.hint("each person counts once"),
        EventError::Rejected(Rejection::NotNow { .. }) => answer.hint("only a step that is held waits for a person"),
        _ => answer,
    }
}

/// Whose word is waited for where other jobs do the step: what to say instead.
fn elsewhere(app: &App, job: JobId, step: StepIx) -> Result<Option<String>, ApiError> {
    let Some(job) = load(app, job)? else { return Ok(None) };
    let items = job.step(step).fan.into_iter().flat_map(|fan| fan.items());
    let children: Vec<JobId> =
        std::iter::once(step).chain(items).filter_map(|ix| job.step(ix).state.child()).take(LOOKS_MAX).collect();
    let Some(first) = children.first() else { return Ok(None) };
    let mut looks = LOOKS_MAX;
    for child in &children {
        if let Some((job, step)) = held_in(app, *child, &mut looks)? {
            // To a shell the name of an item is a pattern.
            let step = if step.contains('[') { format!("'{step}'") } else { step };
            return Ok(Some(format!("a step of job {job} waits: `bowline approve {job} {step}`, or `reject`")));
        }
    }
    Ok(Some(format!("another job does it, and waits for nobody now: `bowline why {first}`")))
}

/// A held step of the job, or of one that it began.
fn held_in(app: &App, job: JobId, looks: &mut usize) -> Result<Option<(JobId, String)>, ApiError> {
    let Some(left) = looks.checked_sub(1) else { return Ok(None) };
    *looks = left;
    let Some(job) = load(app, job)? else { return Ok(None) };
    let all = || (0..job.steps.len()).map(StepIx::of);
    if let Some(held) = all().find(|ix| job.step(*ix).state.name() == StateName::Held) {
        return Ok(Some((job.id, job.name(held).into_owned())));
    }
    for child in all().filter_map(|ix| job.step(ix).state.child()) {
        if let Some(found) = held_in(app, child, looks)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn load(app: &App, id: JobId) -> Result<Option<Job>, ApiError> {
    let stored = app.reader.job(id)?;
    Ok(stored.map(|stored| app.definitions.load(&stored)).transpose()?.map(|(job, _)| job))
}

fn comment(what: &str, text: Option<String>) -> Result<String, ApiError> {
    let text = text.unwrap_or_default().trim().to_owned();
    if text.chars().count() > COMMENT_CHARS_MAX {
        return Err(ApiError::bad_request(format!("`{what}` holds more than {COMMENT_CHARS_MAX} characters")));
    }
    Ok(text)
}
