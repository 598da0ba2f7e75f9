//! The API over HTTP. [`router`] has every route; [`serve`] owns the sockets.
//!
//! Handlers look through `store::Reader`, change through the ledger, and follow the bus; they hold no state of their own.
//! Every error, whoever makes it, has the API's one shape.

mod error;
mod extract;
mod guard;
mod ids;
mod pieces;
mod serve;
mod sse;

mod again;
mod artifacts;
mod jobs;
mod review;
mod submit;
mod view;
mod why;

mod events;
mod follow;
mod log_read;
mod log_stream;
mod logs;
mod server_log;

mod command;
mod depot;
mod enroll;
mod fleet;
mod groups;
mod health;
mod hooks;
mod names;
mod outbox;
mod page;
mod recovery;
mod retention;
mod secrets;
mod tasks;
mod tokens;
mod triggers;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use http::{StatusCode, header};
use serde::Serialize;

use crate::app::App;

pub use error::ApiError;
pub use guard::bearer;
pub(crate) use health::healthz;
pub use names::WorkerNames;
pub use retention::shown;
pub use serve::{Limits, serve};

/// Everything but the workers' link.
pub fn router(app: Arc<App>) -> Router {
    let open = Router::new()
        .route("/", get(page::index))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        // Their tokens are of other kinds, so they look for themselves.
        .route("/api/worker/enroll", post(enroll::enroll))
        .route("/api/worker/artifacts/{set}", post(depot::announce).put(depot::put).get(depot::get))
        // Signed, instead of a token.
        .route("/hooks/{name}", post(hooks::call));
    let guarded = Router::new()
        .route("/api/jobs", get(jobs::list).post(submit::submit))
        .route("/api/jobs/{id}", get(jobs::get))
        .route("/api/jobs/{id}/cancel", post(jobs::cancel))
        .route("/api/jobs/{id}/retry", post(again::retry))
        .route("/api/jobs/{id}/steps/{step}/approve", post(review::approve))
        .route("/api/jobs/{id}/steps/{step}/reject", post(review::reject))
        .route("/api/jobs/{id}/steps/{step}/resolve", post(again::resolve))
        .route("/api/jobs/{id}/why", get(why::get))
        .route("/api/jobs/{id}/events", get(events::of_job))
        .route("/api/jobs/{id}/artifacts", get(artifacts::list))
        .route("/api/jobs/{id}/steps/{step}/artifacts", get(artifacts::all))
        .route("/api/jobs/{id}/steps/{step}/artifacts/{*path}", get(artifacts::file))
        .route("/api/jobs/{id}/steps/{step}/logs", get(logs::page))
        .route("/api/jobs/{id}/steps/{step}/logs/stream", get(logs::stream))
        .route("/api/events", get(events::all))
        .route("/api/workers", get(workers::list))
        .route("/api/workers/{id}", delete(fleet::remove))
        .route("/api/workers/{id}/drain", post(fleet::drain))
        .route("/api/recovery/stale", get(recovery::stale))
        .route("/api/recovery/requeue", post(recovery::requeue))
        .route("/api/recovery/fail", post(recovery::fail))
        .route("/api/retention", get(retention::get))
        .route("/api/retention/prune", post(retention::prune))
        .route("/api/dispatch", get(fleet::dispatch))
        .route("/api/dispatch/pause", post(fleet::pause))
        .route("/api/dispatch/resume", post(fleet::resume))
        .route("/api/groups", get(groups::list))
        .route("/api/outbox", get(outbox::list))
        .route("/api/outbox/{id}/retry", post(outbox::retry))
        .route("/api/tasks", get(tasks::list))
        .route("/api/tasks/{name}", get(tasks::get).put(tasks::put))
        .route("/api/triggers", get(triggers::list))
        .route("/api/triggers/{id}/pause", post(triggers::pause))
        .route("/api/triggers/{id}/resume", post(triggers::resume))
        .route("/api/secrets", get(secrets::list))
        .route("/api/secrets/{name}", put(secrets::set).delete(secrets::remove))
        .route("/api/tokens", get(tokens::list).post(tokens::create))
        .route("/api/tokens/{id}", delete(tokens::revoke))
        .route("/api/openapi.json", get(health::openapi))
        .route("/metrics", get(health::metrics))
        .route_layer(from_fn_with_state(app.clone(), guard::want_token));
    open.merge(guarded).fallback(error::no_such_path).method_not_allowed_fallback(error::no_such_method).with_state(app)
}

/// JSON with a status.
pub(crate) fn answer<T: Serialize>(status: StatusCode, body: &T) -> Response {
    match serde_json::to_vec(body) {
        Ok(json) => (status, [(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => ApiError::internal(&error).into_response(),
    }
}
