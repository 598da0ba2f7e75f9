//! `POST /api/jobs`: the way of a job into the server. Nothing is made before all of the request is known to be good.

use std::sync::Arc;

use api::{ErrorCode, SubmitRequest};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use engine::JobId;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use spec::task::{InputProblem, PRIORITY_MAX, Task, is_tag, kin};

use crate::access::Caller;
use crate::app::App;
use crate::ledger::{Command, IdempotencyKey, Submit, SubmitError, Submitted};
use crate::settings::DefinitionSettings;
use crate::tasks::{self, Extent, Kin, KinError, KnownTask, Reading, to_api};

use super::error::ApiError;
use super::extract::{RawBody, json};
use super::{answer, secrets, view};

/// A key names one request; a whole document is no name.
const KEY_CHARS_MAX: usize = 200;

/// Tags of one submit; a worker has a handful.
const TAGS_MAX: usize = 50;

/// A text up to this size is parsed where it is: handing it to another thread would take longer.
const SMALL_TEXT_BYTES: usize = 16 * 1024;

/// A job of so many steps is read back where it is, for the same reason.
const SMALL_JOB_STEPS: usize = 50;

pub(super) async fn submit(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let idempotency = idempotency_key(&headers, &caller, &body)?;
    let prepared = prepare(&app, &body).await;
    let (task, input) = match (prepared, &idempotency) {
        (Ok(prepared), _) => prepared,
        (Err(refusal), None) => return Err(refusal),
        // The task may have changed or gone since the first time: a repeat still gives the job of then.
        (Err(refusal), Some(key)) => match made_before(&app, key).await? {
            Some(job) => return job_answer(&app, StatusCode::OK, job, usize::MAX).await,
            None => return Err(refusal),
        },
    };
    let steps = task.task.definition.steps().len();
    let submit = Submit {
        definition: task.task.definition.clone(),
        row: task.row.clone(),
        children: task.children.clone(),
        input,
        submitted_by: caller.name.to_string(),
        idempotency,
        trigger: None,
    };
    let submitted = app.ledger.ask(|reply| Command::Submit(Box::new(submit), reply)).await?;
    let Submitted { job, repeated, made } = submitted.map_err(|error| refused(&error))?;
    let status = if repeated { StatusCode::OK } else { StatusCode::CREATED };
    match made {
        Some(made) => Ok(answer(status, &view::made(&app, *made)?)),
        None => job_answer(&app, status, job, steps).await,
    }
}

/// The task and its bound input, or everything that is wrong.
async fn prepare(app: &Arc<App>, body: &[u8]) -> Result<(Arc<KnownTask>, Value), ApiError> {
    let request: SubmitRequest = json(body)?;
    let settings = overrides(app.tasks.settings(), &request)?;
    let named = request.task.as_ref().and_then(|name| app.tasks.get(name)).and_then(|listing| listing.file.clone());
    let file = request.file.clone().or(named);
    let task = match (request.task, request.spec) {
        (Some(name), None) => by_name(app, &name, settings.clone()).await?,
        (None, Some(text)) => by_text(app, text, request.file, settings.clone(), Reading::New).await?,
        (Some(_), Some(_)) => return Err(ApiError::bad_request("give `task` or `spec`, not both")),
        (None, None) => return Err(ApiError::bad_request("give `task`, a task's name, or `spec`, a task's text")),
    };
    let input = bind(&task.task, request.input)?;
    let (task, kin) = with_kin(app, task, settings).await?;
    fits(&task, file.as_deref().unwrap_or(task.name()), &kin, Extent::All)?;
    secrets::want_all(app, &task.task.definition, Extent::All).await?;
    Ok((task, input))
}

/// The task with all that its steps begin, as they are now: the job does what it was submitted with.
pub(super) async fn with_kin(
    app: &Arc<App>,
    task: Arc<KnownTask>,
    settings: Option<DefinitionSettings>,
) -> Result<(Arc<KnownTask>, Kin), ApiError> {
    if kin::is_alone(&task.task.definition) {
        return Ok((task, Kin::new()));
    }
    let kin = app.tasks.kin_of(&task.task.definition).map_err(|error| no_kin(app, &task, &error))?;
    let mut settings = settings.unwrap_or_else(|| app.tasks.settings().clone());
    settings.tasks = tasks::texts(&kin);
    let task = by_text(app, task.row.source.clone(), None, Some(settings), task.reading).await?;
    can_end(&task)?;
    Ok((task, kin))
}

fn no_kin(app: &App, task: &KnownTask, error: &KinError) -> ApiError {
    if let Some(circle) = app.tasks.circle_with(&task.task.definition) {
        return ApiError::new(ErrorCode::InvalidTask, circle).hint("let one of them end by itself");
    }
    let told = ApiError::new(ErrorCode::InvalidTask, error.to_string());
    match error {
        KinError::Unknown { .. } => {
            told.hint("`bowline tasks` lists them; push a file, or put it into the task folder")
        }
        KinError::NotGood { .. } | KinError::NotSupported { .. } => told.hint("`bowline tasks` says what is wrong"),
        KinError::TooDeep(_) => told,
    }
}

/// Not where a task is given what it cannot take, here or further down: its step or hook could only fail.
pub(super) fn fits(task: &KnownTask, file: &str, kin: &Kin, extent: Extent) -> Result<(), ApiError> {
    let problems = tasks::misfits(task, file, kin, extent);
    let Some(first) = problems.first() else { return Ok(()) };
    let error = ApiError::new(ErrorCode::InvalidTask, format!("the task is not good: {}", first.message));
    let error = error.diagnostics(problems.iter().map(to_api).collect());
    Err(match &first.hint {
        Some(hint) => error.hint(hint.clone()),
        None => error,
    })
}

/// Not where a step would wait for a job that waits for the step's own: that is known before there is any.
fn can_end(task: &KnownTask) -> Result<(), ApiError> {
    let Some(problem) = tasks::deadlock(task, Extent::All) else { return Ok(()) };
    let error = ApiError::new(ErrorCode::InvalidTask, format!("the task is not good: {}", problem.message));
    Err(error.hint(problem.hint.clone().unwrap_or_default()).diagnostics(vec![to_api(&problem)]))
}

/// The server's settings with what this submit wants over them; none if it wants nothing of its own.
fn overrides(settings: &DefinitionSettings, request: &SubmitRequest) -> Result<Option<DefinitionSettings>, ApiError> {
    if request.priority.is_none() && request.tags.is_empty() {
        return Ok(None);
    }
    if request.priority.is_some_and(|priority| i64::from(priority).abs() > PRIORITY_MAX) {
        let message = format!("`priority` must be between -{PRIORITY_MAX} and {PRIORITY_MAX}");
        return Err(ApiError::bad_request(message));
    }
    if request.tags.len() > TAGS_MAX {
        return Err(ApiError::bad_request(format!("`tags` holds more than {TAGS_MAX}")));
    }
    if let Some(bad) = request.tags.iter().find(|tag| !is_tag(tag)) {
        let hint = "tags are letters, digits and any of `_-.:/=`";
        return Err(ApiError::bad_request(format!("`{bad}` is no tag")).hint(hint));
    }
    let mut settings = settings.clone();
    settings.priority = request.priority;
    settings.tags.clone_from(&request.tags);
    settings.tags.sort();
    settings.tags.dedup();
    Ok(Some(settings))
}

pub(super) async fn by_name(
    app: &Arc<App>,
    name: &str,
    settings: Option<DefinitionSettings>,
) -> Result<Arc<KnownTask>, ApiError> {
    let Some(listing) = app.tasks.get(name) else {
        let message = format!("there is no task `{name}`");
        let known = app.tasks.all();
        let hint = match spec::nearest(name, known.iter().map(|listing| listing.name.as_str())) {
            Some(near) => format!("did you mean `{near}`? `bowline tasks` lists them all"),
            None => "`bowline tasks` lists them; push a file, or put it into the task folder".to_owned(),
        };
        return Err(ApiError::not_found(message).hint(hint));
    };
    match (&listing.good, settings) {
        (Some(task), None) => supported(task.clone()),
        (Some(task), settings) => {
            by_text(app, task.row.source.clone(), listing.file.clone(), settings, task.reading).await
        }
        (None, _) => {
            let message = format!("the task `{name}` has errors, and no version of it was good before");
            Err(ApiError::new(ErrorCode::InvalidTask, message).diagnostics(listing.diagnostics.clone()))
        }
    }
}

async fn by_text(
    app: &Arc<App>,
    text: String,
    file: Option<String>,
    settings: Option<DefinitionSettings>,
    reading: Reading,
) -> Result<Arc<KnownTask>, ApiError> {
    let settings = settings.unwrap_or_else(|| app.tasks.settings().clone());
    if let Some(task) = app.tasks.known_text(&text, &settings, reading) {
        return supported(task);
    }
    if text.len() <= SMALL_TEXT_BYTES {
        return supported(read_text(app, &text, file.as_deref(), &settings, reading)?);
    }
    supported(app.read(move |app| read_text(app, &text, file.as_deref(), &settings, reading)).await?)
}

/// Reads a task's text; all its problems are in the answer if it has errors.
pub(super) fn read_text(
    app: &App,
    text: &str,
    file: Option<&str>,
    settings: &DefinitionSettings,
    reading: Reading,
) -> Result<Arc<KnownTask>, ApiError> {
    app.tasks.read_text(text, file.unwrap_or("spec"), settings, reading).map_err(|problems| {
        let first = problems.iter().find(|problem| problem.is_error()).map_or("it cannot be read", |p| &p.message);
        ApiError::new(ErrorCode::InvalidTask, format!("the task is not good: {first}"))
            .diagnostics(problems.iter().map(to_api).collect())
    })
}

fn supported(task: Arc<KnownTask>) -> Result<Arc<KnownTask>, ApiError> {
    let Some(first) = task.task.not_supported.first() else { return Ok(task) };
    let message = format!("the task cannot be run yet: {}", first.message);
    let all = task.task.not_supported.iter().map(to_api).collect();
    Err(ApiError::new(ErrorCode::NotSupported, message).diagnostics(all))
}

pub(super) fn bind(task: &Task, given: Map<String, Value>) -> Result<Value, ApiError> {
    task.bind(given).map_err(|problems| {
        let message = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
        let error = ApiError::new(ErrorCode::InvalidInput, message)
            .diagnostics(problems.iter().map(|problem| input_diagnostic(task, problem)).collect());
        match problems.iter().find_map(|problem| problem.hint.clone()) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })
}

/// An input has no place in a text.
fn input_diagnostic(task: &Task, problem: &InputProblem) -> api::Diagnostic {
    api::Diagnostic {
        file: format!("input of {}", task.definition.name),
        line: 0,
        column: 0,
        severity: api::Severity::Error,
        code: ErrorCode::InvalidInput.word().to_owned(),
        message: problem.message.clone(),
        hint: problem.hint.clone(),
        rendered: None,
    }
}

fn idempotency_key(headers: &HeaderMap, caller: &Caller, body: &[u8]) -> Result<Option<IdempotencyKey>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let Some(key) = key_text(value.as_bytes()) else {
        let message = format!("an Idempotency-Key is 1 to {KEY_CHARS_MAX} printable ASCII characters");
        return Err(ApiError::bad_request(message).hint("a random UUID is a good one"));
    };
    let request_hash = *blake3::hash(body).as_bytes();
    Ok(Some(IdempotencyKey { token: caller.token, key: key.to_owned(), request_hash }))
}

/// A key as a header has it, if it is one.
pub(super) fn key_text(key: &[u8]) -> Option<&str> {
    let good = (1..=KEY_CHARS_MAX).contains(&key.len()) && key.iter().all(|b| (b' '..=b'~').contains(b));
    std::str::from_utf8(key).ok().filter(|_| good)
}

/// The job of this key, if there is one; it is an error if that was made by another request.
pub(super) async fn made_before(app: &Arc<App>, key: &IdempotencyKey) -> Result<Option<JobId>, ApiError> {
    let (token, name, hash) = (key.token, key.key.clone(), key.request_hash);
    let row = app.read(move |app| Ok(app.reader.idempotency(token, &name)?)).await?;
    match row {
        Some(row) if row.request_hash == hash => Ok(Some(row.job)),
        Some(_) => Err(refused(&SubmitError::KeyReused)),
        None => Ok(None),
    }
}

pub(super) fn refused(error: &SubmitError) -> ApiError {
    match error {
        SubmitError::KeyReused => ApiError::new(ErrorCode::IdempotencyConflict, error.to_string()),
        SubmitError::Paused => ApiError::new(ErrorCode::Conflict, error.to_string()),
        SubmitError::Group(_) => ApiError::new(ErrorCode::InvalidInput, error.to_string()),
        SubmitError::GroupFull(_) => ApiError::new(ErrorCode::GroupFull, error.to_string()),
        SubmitError::Away(_) => ApiError::new(ErrorCode::Unavailable, error.to_string()).hint("try again in a moment"),
        SubmitError::Internal(_) => ApiError::internal(error),
    }
}

async fn job_answer(app: &Arc<App>, status: StatusCode, id: JobId, steps: usize) -> Result<Response, ApiError> {
    let job =
        if steps <= SMALL_JOB_STEPS { view::job(app, id)? } else { app.read(move |app| view::job(app, id)).await? };
    Ok(answer(status, &job))
}
