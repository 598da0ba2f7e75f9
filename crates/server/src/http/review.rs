//! A person's word on a step that waits for one.

use std::sync::Arc;

use api::{ApproveRequest, RejectRequest};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use engine::{Event, Rejection};
use http::StatusCode;

use crate::access::Caller;
use crate::app::App;
use crate::ledger::{Command, EventError};

use super::error::ApiError;
use super::extract::{Path, RawBody, json};
use super::{again, answer, jobs, view};

/// A comment is a sentence or two: it stands in the job's history.
const COMMENT_CHARS_MAX: usize = 2_000;

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
    answered.map_err(|error| refused(job, &error))?;
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

fn comment(what: &str, text: Option<String>) -> Result<String, ApiError> {
    let text = text.unwrap_or_default().trim().to_owned();
    if text.chars().count() > COMMENT_CHARS_MAX {
        return Err(ApiError::bad_request(format!("`{what}` holds more than {COMMENT_CHARS_MAX} characters")));
    }
    Ok(text)
}
