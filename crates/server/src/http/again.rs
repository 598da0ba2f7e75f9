//! Settling a step by hand, and going on after a job that has ended.

use std::sync::Arc;

use api::{ErrorCode, ResolveHow, ResolveRequest, RetryRequest};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use engine::{AttemptId, JobId, Rejection, StepIx};
use http::StatusCode;
use serde_json::{Map, Value};

use crate::access::Caller;
use crate::app::App;
use crate::ledger::{Again, AgainError, Command, EventError, How, ResolveOrder, RetryOrder};
use crate::settings::DefinitionSettings;

use super::error::ApiError;
use super::extract::{Path, RawBody, json};
use super::{answer, ids, jobs, submit, view};

pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let request: RetryRequest = if body.is_empty() { RetryRequest::default() } else { json(&body)? };
    if request.from_failed && !request.input.is_empty() {
        let message = "`input` cannot go with `from_failed`: what ended well ended with the old inputs";
        return Err(ApiError::bad_request(message).hint("retry the whole job with the new inputs"));
    }
    let changed = request.input;
    let (job, input) = app
        .read(move |app| {
            let job = ids::resolve(app, &id)?;
            let input = if changed.is_empty() { None } else { Some(input_of(app, job, changed)?) };
            Ok((job, input))
        })
        .await?;
    let order = RetryOrder {
        job,
        from_failed: request.from_failed,
        input,
        confirm_dead: request.confirm_dead,
        by: caller.name.to_string(),
    };
    settle(&app, job, Again::Retry(order)).await
}

/// The old job's inputs with others over them, by the rules of the task that it was submitted with.
fn input_of(app: &App, job: JobId, changed: Map<String, Value>) -> Result<Value, ApiError> {
    let stored = app.reader.job(job)?.ok_or_else(|| ids::no_such_job(&job.to_string()))?;
    let row = &stored.definition;
    let settings = DefinitionSettings::from_json(&row.settings).map_err(|error| ApiError::internal(&error))?;
    let (task, _) = spec::task::parse_stored(&row.source, "stored task", &settings.options());
    let task = task.ok_or_else(|| ApiError::internal(&"its stored task cannot be read"))?;
    let old: Value = serde_json::from_str(&stored.job.input).map_err(|error| ApiError::internal(&error))?;
    let mut input = if let Value::Object(old) = old { old } else { Map::new() };
    input.extend(changed);
    submit::bind(&task, input)
}

pub(super) async fn resolve(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path((id, step)): Path<(String, String)>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let request: ResolveRequest = json(&body)?;
    let how = how(&request)?;
    let (job, step) = app.read(move |app| find(app, &id, &step)).await?;
    let order = ResolveOrder {
        job,
        step,
        how,
        attempt: request.attempt.map(AttemptId),
        late_outcome: request.late_outcome,
        confirm_dead: request.confirm_dead,
        by: caller.name.to_string(),
    };
    settle(&app, job, Again::Resolve(order)).await
}

async fn settle(app: &Arc<App>, job: JobId, order: Again) -> Result<Response, ApiError> {
    let settled = app.ledger.ask(|reply| Command::Again(Box::new(order), reply)).await?;
    let settled = settled.map_err(|error| refused(job, error))?;
    let job = app.read(move |app| view::job(app, settled.job)).await?;
    Ok(answer(if settled.is_new { StatusCode::CREATED } else { StatusCode::OK }, &job))
}

fn how(request: &ResolveRequest) -> Result<How, ApiError> {
    let extra = match request.how {
        ResolveHow::Succeeded => request.reason.as_ref().map(|_| "`reason` goes with `failed`"),
        ResolveHow::Failed => (!request.output.is_empty()).then_some("`output` goes with `succeeded`"),
        ResolveHow::Rerun | ResolveHow::AcceptLate => (!request.output.is_empty() || request.reason.is_some())
            .then_some("`output` goes with `succeeded`, and `reason` with `failed`"),
    };
    if let Some(message) = extra {
        return Err(ApiError::bad_request(message));
    }
    Ok(match request.how {
        ResolveHow::Succeeded => How::Succeeded { output: Value::Object(request.output.clone()) },
        ResolveHow::Failed => {
            How::Failed { reason: request.reason.clone().unwrap_or_else(|| "no reason was given".to_owned()) }
        }
        ResolveHow::Rerun => How::Rerun,
        ResolveHow::AcceptLate => How::AcceptLate,
    })
}

pub(super) fn find(app: &App, id: &str, step: &str) -> Result<(JobId, StepIx), ApiError> {
    let id = ids::resolve(app, id)?;
    let stored = app.reader.job(id)?.ok_or_else(|| ids::no_such_job(&id.to_string()))?;
    let (job, _) = app.definitions.load(&stored)?;
    let ix = job.find(step).ok_or_else(|| {
        ApiError::not_found(format!("job {id} has no step `{step}`")).hint("`bowline job ID` lists its steps")
    })?;
    Ok((id, ix))
}

fn refused(job: JobId, error: AgainError) -> ApiError {
    let conflict = |message: String| ApiError::new(ErrorCode::Conflict, message);
    let words = error.to_string();
    match error {
        AgainError::Event(EventError::Rejected(Rejection::NotNow { .. })) => {
            conflict(words).hint(
                "a step can be resolved while it is recovering, or held since the database was restored, or once its job is over",
            )
        }
        AgainError::Event(EventError::Rejected(Rejection::JobOpen(_))) => {
            conflict(words).hint("wait for its end, or cancel it")
        }
        AgainError::Event(error) => jobs::refused(job, &error),
        AgainError::Newer(_) => conflict(words).hint("look at the job again, and decide anew"),
        AgainError::AlreadyContinued(next) => conflict(words).hint(format!("look at job {next} instead")),
        AgainError::IsChild(parent) => {
            conflict(words).hint(format!("`bowline retry {parent} --from-failed` begins it again"))
        }
        AgainError::ChangedInput => conflict(words).hint("retry the whole job with the new inputs"),
        AgainError::Group(_) => ApiError::new(ErrorCode::InvalidInput, words),
        AgainError::GroupFull(_) => ApiError::new(ErrorCode::GroupFull, words),
        AgainError::NothingLate | AgainError::NothingFailed => conflict(words),
        AgainError::MayStillRun(_) => {
            conflict(words).hint("make sure that nothing of it runs any more, then say so with `--confirm-dead`")
        }
    }
}
