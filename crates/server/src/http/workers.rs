//! The fleet: who is enrolled, who is here, who is busy.

use std::collections::HashMap;
use std::sync::Arc;

use api::{Page, Timestamp, Worker, WorkerKind, WorkerStatus};
use axum::extract::State;
use axum::response::Response;
use engine::WorkerId;
use http::StatusCode;
use store::rows::WorkerRow;

use crate::app::App;
use crate::dispatch::Drain;

use super::answer;
use super::error::ApiError;

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    Ok(answer(StatusCode::OK, &Page::whole(all(&app).await?)))
}

/// One worker as it is now; none if it was removed.
pub(super) async fn one(app: &Arc<App>, id: WorkerId) -> Result<Option<Worker>, ApiError> {
    Ok(all(app).await?.into_iter().find(|worker| worker.id == id.0))
}

async fn all(app: &Arc<App>) -> Result<Vec<Worker>, ApiError> {
    let live = app.ledger.inspect(|roster| roster.iter().map(|(id, worker)| (id, Live::of(worker))).collect()).await?;
    let live: HashMap<WorkerId, Live> = live;
    let (rows, clocks) = app.read(|app| Ok((app.reader.workers()?, app.clocks()?))).await?;
    let here = rows.iter().filter(|row| row.removed_at.is_none());
    let workers = here.map(|row| {
        let live = live.get(&row.id).copied().unwrap_or_default();
        // Who was cut off a moment ago is waited for, and not written off yet.
        let awaited = row.left_heard.is_some_and(|left| clocks.heard < left + app.recovery_window);
        worker(row, live, awaited)
    });
    Ok(workers.collect())
}

/// What only the ledger knows of a worker.
#[derive(Debug, Clone, Copy, Default)]
struct Live {
    connected: bool,
    drain: Drain,
    busy: u32,
    seen: Option<engine::Time>,
}

impl Live {
    fn of(worker: &crate::dispatch::Worker) -> Live {
        Live {
            connected: worker.is_connected(),
            drain: worker.drain,
            // What it prepares ahead waits for a slot and takes none.
            busy: u32::try_from(worker.held.len()).unwrap_or(u32::MAX).min(worker.slots),
            seen: worker.last_seen,
        }
    }
}

fn worker(row: &WorkerRow, mut live: Live, awaited: bool) -> Worker {
    live.drain.operator |= row.draining;
    let said = |text: &String| Some(text).filter(|text| !text.is_empty()).cloned();
    Worker {
        id: row.id.0,
        name: row.name.clone(),
        status: match (live.connected || awaited, live.drain.is_on()) {
            (true, false) => WorkerStatus::Active,
            (true, true) => WorkerStatus::Draining,
            (false, _) => WorkerStatus::Inactive,
        },
        connected: live.connected,
        kind: if row.kind == "ephemeral" { WorkerKind::Ephemeral } else { WorkerKind::Static },
        tags: row.tags.clone(),
        slots: row.slots,
        busy: live.busy,
        session_id: row.session,
        boot_id: said(&row.boot_id),
        started_at: row.started_at.map(Timestamp::from),
        last_seen_at: row.last_seen_at.max(live.seen).map(Timestamp::from),
        version: said(&row.version),
        platform: said(&row.platform),
        hostname: said(&row.hostname),
        pid: Some(row.pid).filter(|pid| *pid > 0),
        draining_by: draining_by(live.drain),
    }
}

fn draining_by(drain: Drain) -> Vec<String> {
    let parties = [(drain.operator, "operator"), (drain.own, "worker"), (drain.caretaker, "caretaker")];
    parties.into_iter().filter(|(on, _)| *on).map(|(_, who)| who.to_owned()).collect()
}
