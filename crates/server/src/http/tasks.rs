//! Tasks that can be run by name.

use std::sync::Arc;

use api::{ErrorCode, Page, PutTaskRequest, Task, TaskSummary};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json as value};
use spec::task::{Input, Trigger};
use store::rows::TaskRow;

use crate::access::Caller;
use crate::app::App;
use crate::tasks::{self, KnownTask, Listing, Reading};

use super::error::ApiError;
use super::extract::{Path, RawBody, json};
use super::secrets::Lookup;
use super::triggers::Known;
use super::{answer, submit};

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.read(|app| {
        let (known, secrets) = (Known::read(app)?, Lookup::new(app));
        let tasks: Vec<TaskSummary> =
            app.tasks.all().iter().map(|listing| summary(listing, &known, &secrets)).collect();
        Ok(answer(StatusCode::OK, &Page::whole(tasks)))
    })
    .await
}

pub(super) async fn get(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response, ApiError> {
    app.read(move |app| found(app, &name)).await
}

pub(super) async fn put(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    RawBody(body): RawBody,
) -> Result<Response, ApiError> {
    let request: PutTaskRequest = json(&body)?;
    let PutTaskRequest { spec, file } = request;
    let (source, known) = app
        .read(move |app| {
            let known = submit::read_text(app, &spec, file.as_deref(), app.tasks.settings(), Reading::New)?;
            Ok((spec, known))
        })
        .await?;
    check_name(&app, &name, &known)?;
    let row = TaskRow { name, source, pushed_at: app.clock.now(), pushed_by: caller.name.to_string() };
    let stored = row.clone();
    app.ledger.with_store(move |store, _| store.put_task(&stored)).await??;
    let name = row.name.clone();
    app.read(move |app| {
        app.tasks.push(&row);
        Ok(())
    })
    .await?;
    if let Err(error) = tasks::tell(&app.tasks, &app.ledger).await {
        tracing::warn!(%error, "the triggers of a task that was pushed are seen to later");
    }
    app.read(move |app| found(app, &name)).await
}

fn found(app: &App, name: &str) -> Result<Response, ApiError> {
    let listing = app.tasks.get(name).ok_or_else(|| no_such_task(name))?;
    Ok(answer(StatusCode::OK, &task(&listing, &Known::read(app)?, &Lookup::new(app))))
}

fn check_name(app: &App, name: &str, known: &KnownTask) -> Result<(), ApiError> {
    if known.name() != name {
        let message = format!("the path says `{name}`, and the task calls itself `{}`", known.name());
        return Err(ApiError::new(ErrorCode::InvalidTask, message).hint("make the two the same"));
    }
    if let Some(circle) = app.tasks.circle_with(&known.task.definition) {
        return Err(ApiError::new(ErrorCode::InvalidTask, circle).hint("let one of them end by itself"));
    }
    if let Some(file) = app.tasks.file_of(name) {
        let message = format!("the task `{name}` comes from the file {file} in the server's task folder");
        return Err(ApiError::new(ErrorCode::Conflict, message).hint("change that file, or push under another name"));
    }
    let book = app.tasks.book();
    let taken = known.task.triggers.iter().find_map(|trigger| match trigger {
        Trigger::Webhook { name: hook, .. } => {
            book.hook(hook).filter(|(_, entry, _)| entry.task != name).map(|(_, entry, _)| (hook, &entry.task))
        }
        Trigger::Cron { .. } => None,
    });
    if let Some((hook, other)) = taken {
        let message = format!("the webhook `{hook}` starts the task `{other}` already");
        return Err(
            ApiError::new(ErrorCode::Conflict, message).hint("call it by another name: one call starts one job")
        );
    }
    Ok(())
}

fn no_such_task(name: &str) -> ApiError {
    ApiError::not_found(format!("there is no task `{name}`")).hint("`bowline tasks` lists them")
}

fn summary(listing: &Listing, known: &Known<'_>, secrets: &Lookup<'_>) -> TaskSummary {
    let good = listing.good.as_ref().map(|known| &known.task);
    let steps = good.map_or(0, |task| task.definition.steps().len());
    TaskSummary {
        name: listing.name.clone(),
        description: good.and_then(|task| task.description.clone()),
        file: listing.file.clone(),
        updated_at: Some(listing.updated_at.into()),
        steps: u32::try_from(steps).unwrap_or(u32::MAX),
        triggers: known.of(&listing.name),
        usable: listing.is_usable(),
        diagnostics: diagnostics(listing, secrets),
    }
}

fn task(listing: &Listing, known: &Known<'_>, secrets: &Lookup<'_>) -> Task {
    let good = listing.good.as_ref().map(|known| &known.task);
    let inputs: Map<String, Value> =
        good.iter().flat_map(|task| &task.inputs).map(|input| (input.name.clone(), declaration(input))).collect();
    let steps = good.iter().flat_map(|task| task.definition.steps()).map(|step| step.name.to_string()).collect();
    Task {
        name: listing.name.clone(),
        description: good.and_then(|task| task.description.clone()),
        file: listing.file.clone(),
        updated_at: Some(listing.updated_at.into()),
        usable: listing.is_usable(),
        diagnostics: diagnostics(listing, secrets),
        spec: listing.good.as_ref().map(|known| known.row.source.clone()).unwrap_or_default(),
        input: Value::Object(inputs),
        steps,
        triggers: known.of(&listing.name),
    }
}

/// What is wrong with its text, and what the server lacks for it now.
fn diagnostics(listing: &Listing, secrets: &Lookup<'_>) -> Vec<api::Diagnostic> {
    listing.diagnostics.iter().cloned().chain(secrets.missing(listing)).collect()
}

/// An input as its task file declares it; what was not said is left out.
fn declaration(input: &Input) -> Value {
    let all = value!({
        "type": input.kind.word(),
        "description": input.description,
        "required": input.required,
        "default": input.default,
        "pattern": input.pattern.as_ref().map(ToString::to_string),
        "min": input.min,
        "max": input.max,
        "options": Some(&input.options).filter(|options| !options.is_empty()),
    });
    match all {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}
