//! Going through events in their order: from the store as far as it goes, then as they are committed.
//!
//! The bus is listened to before the store is read, so nothing falls in between; a listener that is too slow for the
//! bus reads from the store again. Memory is bounded either way.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::JobState;
use engine::JobId;
use store::read::EventView;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::app::{App, stopped};
use crate::bus::News;

use super::error::ApiError;
use super::ids;

/// Events read from the store at once.
const PAGE: usize = 500;

pub(super) struct Follower {
    app: Arc<App>,
    job: Option<JobId>,
    /// The last event that was given.
    after: u64,
    news: Receiver<Arc<News>>,
    /// The store may hold events that were not read yet.
    behind: bool,
    /// The job is final: once nothing is behind, this is the end.
    over: bool,
    ended: bool,
}

/// Events that came together.
pub(super) struct Batch {
    pub events: Vec<EventView>,
    /// There will be no more.
    pub over: bool,
}

impl Follower {
    pub(super) fn of_all(app: Arc<App>, after: u64, news: Receiver<Arc<News>>) -> Follower {
        Follower { app, job: None, after, news, behind: true, over: false, ended: false }
    }

    pub(super) async fn of_job(app: Arc<App>, job: JobId, after: u64) -> Result<Follower, ApiError> {
        let news = app.bus.subscribe();
        // Asked before the events are read: if it was over then, all its events are there to be read.
        let over = app.read(move |app| is_over(app, job)).await?;
        Ok(Follower { app, job: Some(job), after, news, behind: true, over, ended: false })
    }

    pub(super) fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// What comes next, at once what is there already (it may be nothing); none at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Batch> {
        let mut shutdown = self.app.shutdown.clone();
        loop {
            if self.ended || self.app.is_stopping() {
                return None;
            }
            if self.behind {
                // An error ends the stream; the client comes again, and hears it then.
                let events = self.read_on().await.ok()?;
                return Some(self.batch(events));
            }
            tokio::select! {
                fresh = self.listen() => if !fresh.is_empty() {
                    return Some(self.batch(fresh));
                },
                () = stopped(&mut shutdown) => return None,
            }
        }
    }

    fn batch(&mut self, events: Vec<EventView>) -> Batch {
        self.after = events.last().map_or(self.after, |last| last.id);
        self.over |= self.job.is_some_and(|job| events.iter().any(|event| is_end_of(event, job)));
        self.ended = self.over && !self.behind;
        Batch { events, over: self.ended }
    }

    async fn read_on(&mut self) -> Result<Vec<EventView>, ApiError> {
        let (job, after) = (self.job, self.after);
        let page = self.app.read(move |app| Ok(app.reader.events(job, after, PAGE)?)).await?;
        self.behind = page.len() == PAGE;
        Ok(page)
    }

    async fn listen(&mut self) -> Vec<EventView> {
        match self.news.recv().await {
            Ok(news) => {
                let ours = |jobs: &BTreeSet<JobId>| self.job.map_or(!jobs.is_empty(), |job| jobs.contains(&job));
                self.behind |= news.elsewhere.as_ref().is_some_and(|elsewhere| ours(&elsewhere.jobs));
                let fresh = news.events.iter().filter(|event| event.id > self.after);
                fresh.filter(|event| self.job.is_none_or(|job| event.job == job)).cloned().collect()
            }
            Err(RecvError::Lagged(_)) => {
                self.behind = true;
                Vec::new()
            }
            Err(RecvError::Closed) => {
                self.ended = true;
                Vec::new()
            }
        }
    }
}

/// Whether this is the event after which nothing happens to the job.
pub(super) fn is_end_of(event: &EventView, job: JobId) -> bool {
    let ended = || event.to.as_deref().and_then(JobState::from_word).is_some_and(JobState::is_final);
    event.job == job && event.kind == "job" && ended()
}

fn is_over(app: &App, id: JobId) -> Result<bool, ApiError> {
    let stored = app.reader.job(id)?.ok_or_else(|| ids::no_such_job(&id.to_string()))?;
    Ok(JobState::from_word(&stored.job.state).is_some_and(JobState::is_final))
}
