//! Live changes, as Server-Sent Events.

use std::sync::Arc;

use api::{EventKind, EventsQuery};
use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use engine::JobId;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::HeaderMap;
use store::read::EventView;

use crate::app::App;

use super::error::ApiError;
use super::extract::{Path, Query};
use super::follow::{Batch, Follower};
use super::names::WorkerNames;
use super::{ids, sse};

pub(super) async fn all(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> Result<Response, ApiError> {
    let news = app.bus.subscribe();
    let after = match sse::last_event_id(&headers)?.or(query.after) {
        Some(after) => after,
        None => app.read(|app| Ok(app.reader.last_event()?)).await?,
    };
    Ok(respond(Follower::of_all(app, after, news)))
}

pub(super) async fn of_job(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> Result<Response, ApiError> {
    let after = sse::last_event_id(&headers)?.or(query.after).unwrap_or(0);
    let id: JobId = app.read(move |app| ids::resolve(app, &id)).await?;
    Ok(respond(Follower::of_job(app, id, after).await?))
}

fn respond(follower: Follower) -> Response {
    let app = follower.app().clone();
    let batches = stream::unfold(follower, |mut follower| async move {
        let batch = follower.next().await?;
        Some((batch, follower))
    });
    sse::respond(batches.flat_map(move |batch| stream::iter(messages(&app, &batch))))
}

fn messages(app: &App, batch: &Batch) -> Vec<Event> {
    let mut messages: Vec<Event> = batch.events.iter().map(|event| message(app, event)).collect();
    if batch.over {
        messages.push(Event::default().event(api::event::END).data("{}"));
    }
    messages
}

fn message(app: &App, event: &EventView) -> Event {
    let body = serde_json::to_string(&to_api(app, event)).expect("an event is plain data and always has a JSON form");
    Event::default().id(event.id.to_string()).data(body)
}

fn to_api(app: &App, event: &EventView) -> api::Event {
    api::Event {
        id: event.id,
        at: event.at.into(),
        job: Some(event.job.0),
        step: event.step.clone(),
        attempt: None,
        worker: event.worker.map(|worker| WorkerNames::get(app, worker)),
        kind: match event.kind.as_str() {
            "job" => EventKind::Job,
            "step" => EventKind::Step,
            "offer" => EventKind::Offer,
            "attempt" => EventKind::Attempt,
            "approved" => EventKind::Approved,
            "cancel_asked" => EventKind::CancelAsked,
            "continued" => EventKind::Continued,
            _ => EventKind::Unknown,
        },
        verb: event.verb.clone(),
        from: event.from.clone(),
        to: event.to.clone(),
        reason: event.reason.clone(),
    }
}
