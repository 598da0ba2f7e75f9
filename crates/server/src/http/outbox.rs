//! What followed on a job's end, and the words to the outside that nobody took.

use std::sync::Arc;

use api::job::{Hook, HookKind};
use api::{Delivery, DeliveryState, Page, Timestamp};
use axum::extract::State;
use axum::response::Response;
use engine::JobId;
use engine::definition::{self, HookWork, Occasion, Outside};
use engine::notice::CARRIED_MAX;
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

/// What followed on the job's end, in the order of its file, and before that what followed on its notices. Nothing on a hook.
pub(super) fn hooks(app: &App, job: &engine::Job) -> Result<Vec<Hook>, ApiError> {
    if job.hook_of.is_some() || job.definition.hooks.is_empty() {
        return Ok(Vec::new());
    }
    let numbered = || job.definition.hooks.iter().enumerate();
    let mut found = Vec::new();
    for notice in job.notices().iter().take(CARRIED_MAX as usize) {
        let about = notice.step.as_ref().map(|(ix, _)| *ix);
        for (number, hook) in numbered().filter(|(_, hook)| hook.on == Occasion::Notice) {
            found.extend(followed(app, hook, job.id.notice(notice.kind, about, number))?);
        }
    }
    for (number, hook) in numbered().filter(|(_, hook)| job.is_final() && hook.on != Occasion::Notice) {
        found.extend(followed(app, hook, job.id.hook(number))?);
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
