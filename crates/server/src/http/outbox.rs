//! What followed on a job's end, and the words to the outside that nobody took.

use std::sync::Arc;

use api::job::{Hook, HookKind, NOT_BEGUN};
use api::{Delivery, DeliveryState, Page, Timestamp};
use axum::extract::State;
use axum::response::Response;
use engine::definition::{self, HookWork, Occasion, Outside};
use engine::notice::CARRIED_MAX;
use engine::{JobId, is_occasion, no_job_follows};
use http::StatusCode;
use store::Batch;
use store::read::OutboxView;
use store::rows::OutboxMove;
use uuid::Uuid;

use crate::app::App;
use crate::ledger::Letter;

use super::answer;
use super::error::ApiError;
use super::extract::Path;

/// Of what was given up, so many are listed.
const LISTED_MAX: usize = 1_000;

/// Events read from the store at once.
const EVENTS_PAGE: usize = 500;

/// What followed on the job's end, in the order of its file, and before that what followed on its notices. Nothing on a hook.
pub(super) fn hooks(app: &App, job: &engine::Job) -> Result<Vec<Hook>, ApiError> {
    if job.hook_of.is_some() || job.definition.hooks.is_empty() {
        return Ok(Vec::new());
    }
    let numbered = || job.definition.hooks.iter().enumerate();
    let mut found = Vec::new();
    let mut refusals = None;
    let mut look = |hook: &definition::Hook, id: JobId| match followed(app, hook, id)? {
        Some(found) => Ok(Some(found)),
        None => not_begun(app, hook, id, job.id, &mut refusals),
    };
    for notice in job.notices().iter().take(CARRIED_MAX as usize) {
        let about = notice.step.as_ref().map(|(ix, _)| *ix);
        for (number, hook) in numbered().filter(|(_, hook)| hook.on == Occasion::Notice) {
            found.extend(look(hook, job.id.notice(notice.kind, about, number))?);
        }
    }
    for (number, hook) in numbered().filter(|(_, hook)| is_occasion(&job.header, hook.on)) {
        found.extend(look(hook, job.id.hook(number))?);
    }
    Ok(found)
}

fn followed(app: &App, hook: &definition::Hook, id: JobId) -> Result<Option<Hook>, ApiError> {
    let on = hook.on.word().to_owned();
    Ok(match &hook.work {
        HookWork::Task(body) => app.reader.job(id)?.map(|stored| Hook {
            on,
            id: id.0,
            kind: HookKind::Task,
            target: body.task.to_string(),
            state: stored.job.state,
            error: None,
        }),
        HookWork::Tell(outside) => app.reader.outbox(id.0)?.map(|row| Hook {
            on,
            id: id.0,
            kind: match outside {
                Outside::Webhook(_) => HookKind::Webhook,
                Outside::Mail(_) => HookKind::Mail,
            },
            target: outside.address(),
            state: state(&row).word().to_owned(),
            error: row.error,
        }),
    })
}

/// A job that was to follow and could not be made. Only the history knows why; it has these in the order of the hooks.
fn not_begun(
    app: &App,
    hook: &definition::Hook,
    id: JobId,
    of: JobId,
    refusals: &mut Option<Vec<String>>,
) -> Result<Option<Hook>, ApiError> {
    let HookWork::Task(body) = &hook.work else { return Ok(None) };
    let refusals = match refusals {
        Some(known) => known,
        None => refusals.insert(reasons(app, of)?),
    };
    let begin = no_job_follows(hook.on, &body.task);
    let Some(at) = refusals.iter().position(|reason| reason.starts_with(&begin)) else { return Ok(None) };
    let error = refusals.remove(at)[begin.len()..].to_owned();
    Ok(Some(Hook {
        on: hook.on.word().to_owned(),
        id: id.0,
        kind: HookKind::Task,
        target: body.task.to_string(),
        state: NOT_BEGUN.to_owned(),
        error: Some(error),
    }))
}

/// What a job's history says of its hooks.
fn reasons(app: &App, job: JobId) -> Result<Vec<String>, ApiError> {
    let mut found = Vec::new();
    let mut after = 0;
    loop {
        let events = app.reader.events(Some(job), after, EVENTS_PAGE)?;
        after = events.last().map_or(after, |event| event.id);
        let is_whole = events.len() < EVENTS_PAGE;
        found.extend(events.into_iter().filter(|event| event.kind == "hook").map(|event| event.reason));
        if is_whole {
            return Ok(found);
        }
    }
}

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let dead = app.read(|app| Ok(app.reader.dead_outbox(LISTED_MAX)?)).await?;
    Ok(answer(StatusCode::OK, &Page::whole(dead.into_iter().map(delivery).collect())))
}

/// Begins a delivery anew that was given up; one that is under way stays as it is.
pub(super) async fn retry(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let none =
        || ApiError::not_found(format!("there is no delivery `{id}`")).hint("`bowline outbox` lists what was given up");
    let uuid = Uuid::parse_str(&id).map_err(|_| none())?;
    let row = app.read(move |app| Ok(app.reader.outbox(uuid)?)).await?.ok_or_else(none)?;
    if state(&row) == DeliveryState::Dead {
        app.ledger.with_store(move |store, now| begin_anew(store, &row, now)).await??;
    }
    let row = app.read(move |app| Ok(app.reader.outbox(uuid)?)).await?.ok_or_else(none)?;
    Ok(answer(StatusCode::OK, &delivery(row)))
}

fn begin_anew(store: &mut dyn store::Store, row: &OutboxView, now: engine::Time) -> Result<(), store::StoreError> {
    let (id, expected, error) = (row.id, row.tries, row.error.clone());
    let again = OutboxMove { id, expected, tries: 0, next_at: Some(now), delivered_at: None, error };
    store.commit(&Batch { now, outbox_moves: vec![again], ..Batch::default() }).map(drop)
}

fn state(row: &OutboxView) -> DeliveryState {
    match (row.next_at, row.delivered_at) {
        (_, Some(_)) => DeliveryState::Delivered,
        (Some(_), None) => DeliveryState::Waiting,
        (None, None) => DeliveryState::Dead,
    }
}

fn delivery(row: OutboxView) -> Delivery {
    Delivery {
        state: state(&row),
        id: row.id,
        job: row.job.0,
        url: Letter::from_json(&row.body).map(|letter| letter.url).unwrap_or_default(),
        tries: row.tries,
        created_at: row.created_at.into(),
        next_at: row.next_at.map(Timestamp::from),
        delivered_at: row.delivered_at.map(Timestamp::from),
        error: row.error,
    }
}
