//! What starts jobs by itself, as people see it: what comes next, what came of the last time, pause and resume.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
use crate::schedule::{Book, Entry, Missed, Schedule, Webhook, Work};

use super::answer;
use super::error::ApiError;
use super::extract::Path;
use super::secrets::Lookup;

/// How many times ahead are shown.
const SHOWN_NEXT: usize = 3;

/// A schedule whose task is gone is shown for so long after it was said that it did not run: who deleted the task knows.
const GONE_SHOWN_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

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
    let problem = problem(entry, &book, &Lookup::new(app));
    Ok(answer(StatusCode::OK, &trigger(&row.id, entry, Some(&row), problem)))
}

/// The triggers of all tasks, and where each stands.
pub(super) struct Known<'a> {
    secrets: Lookup<'a>,
    book: Arc<Book>,
    rows: BTreeMap<String, TriggerRow>,
    now: Time,
}

impl<'a> Known<'a> {
    pub(super) fn read(app: &'a App) -> Result<Known<'a>, ApiError> {
        let rows = app.reader.triggers()?.into_iter().map(|row| (row.id.clone(), row)).collect();
        Ok(Known { secrets: Lookup::new(app), book: app.tasks.book(), rows, now: app.clock.now() })
    }

    fn all(&self) -> Vec<Trigger> {
        self.those(|_| true)
    }

    pub(super) fn of(&self, task: &str) -> Vec<Trigger> {
        self.those(|of| of == task)
    }

    /// Of these tasks, in the order of their ids.
    fn those(&self, wanted: impl Fn(&str) -> bool) -> Vec<Trigger> {
        let known = self.book.iter().filter(|(_, entry)| wanted(&entry.task));
        let known = known.map(|(id, entry)| trigger(id, entry, self.rows.get(id), self.problem(entry)));
        let orphans = self.orphans().filter(|row| wanted(&row.task)).map(|row| orphan(row, &self.book));
        let mut all: Vec<Trigger> = known.chain(orphans).collect();
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }

    fn problem(&self, entry: &Entry) -> Option<String> {
        problem(entry, &self.book, &self.secrets)
    }

    /// Those that would come if their tasks were there, and had no errors.
    fn orphans(&self) -> impl Iterator<Item = &TriggerRow> {
        let lately = |row: &TriggerRow| row.notice_at.is_some_and(|at| self.now.since(at) < GONE_SHOWN_FOR);
        let waits = move |row: &TriggerRow| match self.book.lists(&row.task) {
            true => row.kind == "webhook" || row.planned_at.is_some(),
            false => row.next_at.is_some() || row.planned_at.is_some() && lately(row),
        };
        let missing = |row: &&TriggerRow| self.book.get(&row.id).is_none() && self.book.missing(&row.task).is_some();
        self.rows.values().filter(missing).filter(move |row| waits(row))
    }
}

/// As the task says it.
enum Said<'a> {
    Cron(&'a Schedule),
    Webhook(&'a Webhook),
    /// What is stored of it cannot be read.
    Nothing,
}

/// Why it makes no job, or one of an older text: by its task, by what the server has, and by who has its name.
fn problem(entry: &Entry, book: &Book, secrets: &Lookup<'_>) -> Option<String> {
    let of_task = book.problem(&entry.task).map(str::to_owned).or_else(|| entry.problem.clone());
    of_task
        .or_else(|| match &entry.work {
            Work::Webhook(hook) => Some(format!("its calls cannot be checked: {}", secrets.problem(&hook.secret)?.0)),
            Work::Cron { .. } => None,
        })
        .or_else(|| secrets.lacking(&entry.body))
}

fn trigger(id: &str, entry: &Entry, row: Option<&TriggerRow>, problem: Option<String>) -> Trigger {
    let said = match &entry.work {
        Work::Cron { schedule, .. } => Said::Cron(schedule),
        Work::Webhook(hook) => Said::Webhook(hook),
    };
    shown((id, &entry.task, entry.kind()), &said, row, problem)
}

/// What its row says while its task does not.
fn orphan(row: &TriggerRow, book: &Book) -> Trigger {
    let (schedule, hook) = (Schedule::from_json(&row.definition), Webhook::from_json(&row.definition));
    let said = match (row.kind.as_str(), &schedule, &hook) {
        ("cron", Ok(schedule), _) => Said::Cron(schedule),
        ("webhook", _, Ok(hook)) => Said::Webhook(hook),
        _ => Said::Nothing,
    };
    Trigger { next: Vec::new(), ..shown((&row.id, &row.task, &row.kind), &said, Some(row), book.missing(&row.task)) }
}

fn shown(
    (id, task, kind): (&str, &str, &str),
    said: &Said<'_>,
    row: Option<&TriggerRow>,
    task_problem: Option<String>,
) -> Trigger {
    let (schedule, hook) = match said {
        Said::Cron(schedule) => (Some(*schedule), None),
        Said::Webhook(hook) => (None, Some(*hook)),
        Said::Nothing => (None, None),
    };
    Trigger {
        id: id.to_owned(),
        task: task.to_owned(),
        kind: if kind == "webhook" { TriggerKind::Webhook } else { TriggerKind::Cron },
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
        task_problem,
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
