//! `GET /api/groups`: who has the slots of concurrency groups, and who waits for them. By the rows, as admissions are decided.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{Group, GroupDoubt, GroupHolder, GroupWaiter, GroupsQuery, Page, Timestamp};
use axum::extract::State;
use axum::response::Response;
use engine::why::DoubtView;
use engine::{Job, JobId, Time};
use http::StatusCode;

use crate::app::App;
use crate::explain::doubt;
use crate::ledger::DOUBT_MAX;

use super::answer;
use super::error::ApiError;
use super::extract::Query;

/// Groups of one page.
const PAGE: usize = 100;

/// Jobs of one group that are named, of those that have a slot and of those that wait.
const NAMED_MAX: usize = 100;

/// Longer lines are told as this long.
const LINE_MAX: usize = 10_000;

pub(super) async fn list(State(app): State<Arc<App>>, Query(query): Query<GroupsQuery>) -> Result<Response, ApiError> {
    let page = app.read(move |app| page(app, query.cursor.as_deref().unwrap_or_default())).await?;
    Ok(answer(StatusCode::OK, &page))
}

fn page(app: &App, after: &str) -> Result<Page<Group>, ApiError> {
    let now = app.clocks()?.now;
    let mut names: BTreeSet<String> = app.reader.groups(after, PAGE + 1)?.into_iter().collect();
    let strays = app.reader.stray_slots(now - DOUBT_MAX)?;
    names.extend(strays.into_iter().map(|(group, _)| group).filter(|group| group.as_str() > after));
    let more = names.len() > PAGE;
    let names: Vec<String> = names.into_iter().take(PAGE).collect();
    let next = names.last().cloned().filter(|_| more);
    let mut items = Vec::new();
    for name in names {
        // Nobody is in it any more where all doubts are over.
        items.extend(Some(group(app, name, now)?).filter(|group| group.held + group.waiting > 0));
    }
    Ok(Page { items, next })
}

fn group(app: &App, name: String, now: Time) -> Result<Group, ApiError> {
    let (mut holders, mut held, mut limits) = (Vec::new(), 0, BTreeSet::new());
    for slot in app.reader.slots(&name, now - DOUBT_MAX)? {
        let unproven = match slot.ended_at {
            None => None,
            Some(_) => {
                let found = doubt(app.reader.as_ref(), &app.definitions, now, slot.job, app.recovery_window)?;
                // It is over, and its slot is free.
                let Some(found) = found else { continue };
                Some(unproven(found))
            }
        };
        held += 1;
        if holders.len() < NAMED_MAX
            && let Some(job) = load(app, slot.job)?
        {
            limits.extend(limit(&job));
            let (task, state) = (job.definition.name.to_string(), job.header.state.into());
            let since = job.header.admitted_at.map(Timestamp::from);
            holders.push(GroupHolder { job: slot.job.0, task, state, since, unproven });
        }
    }
    let waiting = app.reader.line(&name, LINE_MAX)?;
    let mut line = Vec::new();
    for one in waiting.iter().take(NAMED_MAX) {
        // Gone since the line was read.
        let Some(job) = load(app, one.job)? else { continue };
        limits.extend(limit(&job));
        line.push(GroupWaiter {
            job: one.job.0,
            task: job.definition.name.to_string(),
            priority: one.priority,
            limit: limit(&job).unwrap_or_default(),
            since: one.created_at.into(),
        });
    }
    let waiting = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
    Ok(Group { name, limits: limits.into_iter().collect(), held, holders, waiting, line })
}

fn load(app: &App, id: JobId) -> Result<Option<Job>, ApiError> {
    let Some(stored) = app.reader.job(id)? else { return Ok(None) };
    Ok(Some(app.definitions.load(&stored)?.0))
}

fn limit(job: &Job) -> Option<u32> {
    job.definition.concurrency.as_ref().map(|concurrency| concurrency.limit)
}

fn unproven(found: DoubtView) -> GroupDoubt {
    GroupDoubt {
        step: found.step,
        attempt: found.number,
        worker: found.worker,
        given_up_at: found.given_up_at.map(Timestamp::from),
        until: found.until.into(),
    }
}
