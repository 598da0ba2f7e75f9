//! A job's own log, `_server`: every decision about it as a line, numbered from 1.

use std::sync::Arc;

use api::log::StreamId;
use api::{LogLine, LogPage, LogsQuery, Stream};
use axum::response::Response;
use axum::response::sse::Event;
use engine::JobId;
use futures_util::{StreamExt as _, stream};
use store::read::EventView;

use crate::app::App;

use super::error::ApiError;
use super::follow::{Follower, is_end_of};
use super::names::WorkerNames;
use super::sse;

/// Events read from the store at once.
const PAGE: usize = 500;

pub(super) fn page(app: &App, job: JobId, query: &LogsQuery, limit: usize) -> Result<LogPage, ApiError> {
    let events = all(app, job)?;
    let total = events.len() as u64;
    let from = begin(query, total);
    let skipped = usize::try_from(from - 1).unwrap_or(usize::MAX);
    let numbered = events.iter().zip(1..).skip(skipped).take(limit);
    let lines: Vec<LogLine> = numbered.map(|(event, seq)| line(app, event, seq)).collect();
    let next = lines.last().map_or(from, |line| line.seq + 1);
    let over = events.iter().any(|event| is_end_of(event, job));
    Ok(LogPage { lines, next, complete: over && next > total })
}

pub(super) async fn stream(
    app: Arc<App>,
    job: JobId,
    query: &LogsQuery,
    seen: Option<StreamId>,
) -> Result<Response, ApiError> {
    let from = match seen {
        Some(seen) => seen.seq.saturating_add(1),
        None => {
            let total = app.read(move |app| Ok(all(app, job)?.len() as u64)).await?;
            begin(query, total)
        }
    };
    let follower = Follower::of_job(app, job, 0).await?;
    let pages = stream::unfold((follower, 0), move |(mut follower, mut seq)| async move {
        let batch = follower.next().await?;
        let mut lines = Vec::new();
        for event in &batch.events {
            seq += 1;
            if seq >= from {
                lines.push(line(follower.app(), event, seq));
            }
        }
        let page = LogPage { lines, next: from.max(seq + 1), complete: batch.over };
        Some((page, (follower, seq)))
    });
    Ok(sse::respond(pages.map(|page| message(&page)).boxed()))
}

/// The number of the first line that is wanted, of `total` that are there.
fn begin(query: &LogsQuery, total: u64) -> u64 {
    let from = match query.tail {
        Some(tail) => (total + 1).saturating_sub(u64::from(tail)),
        None => query.from.unwrap_or(1),
    };
    from.max(1)
}

/// Numbers come from counting, so every look goes through all events; a job has a handful per step.
fn all(app: &App, job: JobId) -> Result<Vec<EventView>, ApiError> {
    let mut events = Vec::new();
    loop {
        let after = events.last().map_or(0, |event: &EventView| event.id);
        let page = app.reader.events(Some(job), after, PAGE)?;
        let more = page.len() == PAGE;
        events.extend(page);
        if !more {
            return Ok(events);
        }
    }
}

fn line(app: &App, event: &EventView, seq: u64) -> LogLine {
    LogLine {
        seq,
        sub: 0,
        attempt: 0,
        stream: Stream::Server,
        time: event.at.into(),
        text: words(app, event),
        continued: false,
        unterminated: false,
        bytes_base64: None,
    }
}

/// `step build: queued -> running: worker build-1 may start it`
fn words(app: &App, event: &EventView) -> String {
    let subject = match &event.step {
        Some(step) => format!("step {step}"),
        None => "job".to_owned(),
    };
    let what = match (&event.from, &event.to, event.kind.as_str()) {
        (Some(from), Some(to), _) => format!("{from} -> {to}"),
        (_, _, "offer") => {
            let worker = event.worker.map(|worker| WorkerNames::get(app, worker)).unwrap_or_default();
            format!("offer to {worker} {}", event.verb.as_deref().unwrap_or_default())
        }
        (_, _, "attempt") => {
            format!("attempt {}", event.verb.as_deref().unwrap_or_default().replace('_', " "))
        }
        (_, _, "approved") => "still held".to_owned(),
        (_, _, "cancel_asked") => "cancel asked".to_owned(),
        (_, _, kind) => kind.to_owned(),
    };
    one_line(&format!("{subject}: {what}: {}", event.reason))
}

/// People's comments and errors of programs are part of it: none may pass for a line of its own, nor move a cursor.
fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().collect() } else { c.to_string() };
    if text.contains(char::is_control) { text.chars().map(shown).collect() } else { text.to_owned() }
}

fn message(page: &LogPage) -> Event {
    let body = serde_json::to_string(page).expect("a page is plain data and always has a JSON form");
    let message = Event::default().data(body);
    match page.lines.last() {
        Some(line) => message.id(StreamId { attempt: 0, seq: line.seq, sub: line.sub }.to_string()),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_cannot_pass_for_a_line_of_its_own() {
        assert_eq!(one_line("no\njob: running -> success\u{1b}[2K"), "no\\njob: running -> success\\u{1b}[2K");
        assert_eq!(one_line("plain — ü"), "plain — ü");
    }
}
