//! What starts jobs by itself, as people see it: what comes next, what came of the last time, pause and resume.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Page, Trigger, TriggerKind};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use engine::Time;
use http::StatusCode;
use store::rows::TriggerRow;

use crate::access::Caller;
use crate::app::App;
use crate::ledger::{Command, TriggerError, TriggerOrder};
use crate::schedule::{Book, Entry, Missed, Schedule, Work};

use super::answer;
use super::error::ApiError;
use super::extract::Path;

/// How many times ahead are shown.
const SHOWN_NEXT: usize = 3;

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let triggers = app.read(|app| Known::read(app).map(|known| known.all())).await?;
    Ok(answer(StatusCode::OK, &Page::whole(triggers)))
}

pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    order(&app, TriggerOrder::Pause { id, by: caller.name.to_string() }).await
}

pub(super) async fn resume(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    order(&app, TriggerOrder::Resume { id }).await
}

async fn order(app: &Arc<App>, order: TriggerOrder) -> Result<Response, ApiError> {
    let done = app.ledger.ask(|reply| Command::Trigger(order, reply)).await?;
    let row = done.map_err(|error| match error {
        TriggerError::NoSuchTrigger => {
            ApiError::not_found("there is no such trigger").hint("`bowline triggers` lists them")
        }
        error @ TriggerError::Internal(_) => ApiError::internal(&error),
    })?;
    let book = app.tasks.book();
    let entry = book.get(&row.id).ok_or_else(|| ApiError::not_found("its task is gone"))?;
    Ok(answer(StatusCode::OK, &trigger(&row.id, entry, Some(&row))))
}

/// The triggers of all tasks, and where each stands.
pub(super) struct Known {
    book: Arc<Book>,
    rows: BTreeMap<String, TriggerRow>,
}

impl Known {
    pub(super) fn read(app: &App) -> Result<Known, ApiError> {
        let rows = app.reader.triggers()?.into_iter().map(|row| (row.id.clone(), row)).collect();
        Ok(Known { book: app.tasks.book(), rows })
    }

    fn all(&self) -> Vec<Trigger> {
        self.book.iter().map(|(id, entry)| trigger(id, entry, self.rows.get(id))).collect()
    }

    pub(super) fn of(&self, task: &str) -> Vec<Trigger> {
        let its = self.book.iter().filter(|(_, entry)| entry.task == task);
        its.map(|(id, entry)| trigger(id, entry, self.rows.get(id))).collect()
    }
}

fn trigger(id: &str, entry: &Entry, row: Option<&TriggerRow>) -> Trigger {
    let (schedule, hook) = match &entry.work {
        Work::Cron { schedule, .. } => (Some(schedule), None),
        Work::Webhook(hook) => (None, Some(hook)),
    };
    Trigger {
        id: id.to_owned(),
        task: entry.task.clone(),
        kind: if hook.is_some() { TriggerKind::Webhook } else { TriggerKind::Cron },
        cron: schedule.map(|schedule| schedule.cron.clone()),
        timezone: schedule.map(|schedule| schedule.timezone.clone()),
        missed: schedule.map(|schedule| {
            let word = match schedule.missed {
                Missed::Skip => "skip",
                Missed::Once => "once",
            };
            word.to_owned()
        }),
        jitter_ms: schedule.map(|schedule| schedule.jitter_ms),
        path: hook.map(|hook| format!("/hooks/{}", hook.name)),
        secret: hook.map(|hook| hook.secret.clone()),
        paused: row.is_some_and(|row| row.paused_at.is_some()),
        paused_at: row.and_then(|row| row.paused_at).map(Into::into),
        paused_by: row.and_then(|row| row.paused_by.clone()),
        next: row.zip(schedule).map(|(row, schedule)| next(row, schedule)).unwrap_or_default(),
        last_at: row.and_then(|row| row.last_at).map(Into::into),
        last_job: row.and_then(|row| row.last_job).map(|job| job.0),
        last_error: row.and_then(|row| row.last_error.clone()),
        missed_times: row.map_or(0, |row| row.missed),
        notice: row.and_then(|row| row.notice.clone()),
        notice_at: row.and_then(|row| row.notice_at).map(Into::into),
    }
}

/// The one that its row waits for, and those after it.
fn next(row: &TriggerRow, schedule: &Schedule) -> Vec<api::Timestamp> {
    let (Some(at), Some(planned), Ok(times)) = (row.next_at, row.planned_at, schedule.times(&row.id)) else {
        return Vec::new();
    };
    let later = std::iter::successors(times.after(planned), |next| times.after(next.planned)).map(|next| next.at);
    std::iter::once(at).chain(later).take(SHOWN_NEXT).map(|time: Time| time.into()).collect()
}
