//! `GET /api/jobs/{id}/why`: the explanation, as a request gets it.

use std::sync::Arc;

use api::{Why, WhyNext, WhyStep};
use axum::extract::State;
use axum::response::Response;
use engine::why::StepWhy;
use http::StatusCode;

use crate::app::App;
use crate::explain::{Live, explain};

use super::error::ApiError;
use super::extract::Path;
use super::{answer, ids};

pub(super) async fn get(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let live = app.ledger.inspect(Live::of).await?;
    let why = app.read(move |app| look(app, &id, live)).await?;
    Ok(answer(StatusCode::OK, &why))
}

fn look(app: &App, id: &str, live: Live) -> Result<Why, ApiError> {
    let id = ids::resolve(app, id)?;
    let live = live.with_window(app.recovery_window);
    let why = explain(app.reader.as_ref(), &app.definitions, &app.clocks()?, id, live)?;
    let why = why.ok_or_else(|| ids::no_such_job(&id.to_string()))?;
    Ok(Why { summary: why.summary, steps: why.steps.into_iter().map(step).collect() })
}

fn step(step: StepWhy) -> WhyStep {
    WhyStep {
        name: step.name.to_string(),
        state: step.state.into(),
        owner: Some(step.owner).filter(|_| !step.state.is_final()),
        last_sign_of_life: step.last_sign_of_life.map(Into::into),
        reason: step.reason,
        next: step.next.map(|next| WhyNext { at: next.at.into(), action: next.action }),
    }
}
