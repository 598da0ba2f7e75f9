//! What followed on a job's end, and the words to the outside that nobody took.

use std::sync::Arc;

use api::job::{Hook, HookKind};
use api::{Delivery, DeliveryState, Page, Timestamp};
use axum::extract::State;
use axum::response::Response;
use engine::definition::HookWork;
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

/// What followed on the job's end, in the order of its file. Nothing while it is open, and nothing on a hook.
pub(super) fn hooks(app: &App, job: &engine::Job) -> Result<Vec<Hook>, ApiError> {
    if !job.is_final() || job.hook_of.is_some() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for (number, hook) in job.definition.hooks.iter().enumerate() {
        let (id, on) = (job.id.hook(number), hook.on.word().to_owned());
        let shown = match &hook.work {
            HookWork::Task(body) => app.reader.job(id)?.map(|stored| Hook {
                on,
                id: id.0,
                kind: HookKind::Task,
                target: body.task.to_string(),
                state: stored.job.state,
                error: None,
            }),
            HookWork::Webhook(webhook) => app.reader.outbox(id.0)?.map(|row| Hook {
                on,
                id: id.0,
                kind: HookKind::Webhook,
                target: webhook.url.clone(),
                state: state(&row).word().to_owned(),
                error: row.error,
            }),
        };
        found.extend(shown);
    }
    Ok(found)
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
