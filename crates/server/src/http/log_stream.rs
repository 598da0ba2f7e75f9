//! A step's log, live: the lines of its attempts, one attempt after the other, as they are stored.
//!
//! ```text
//!  look at the store ──► a page of lines ──► wait for news about this log or step ──┐
//!         ▲                                                                          │
//!         └──────────────────────────────────────────────────────────────────────────┘
//!  The end: the attempt's log is complete, and the step is final (or the attempt was asked for by number).
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api::LogPage;
use api::log::StreamId;
use axum::response::Response;
use axum::response::sse::Event;
use engine::{JobId, StepIx};
use futures_util::{StreamExt as _, stream};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Sleep;

use crate::app::{App, stopped};
use crate::bus::News;

use super::error::ApiError;
use super::log_read::{self, After, Subject, Trailing};
use super::{logs, sse};

/// Lines of one message.
const LINES_MAX: usize = 1_000;

/// A result overtakes the last lines on their way. Once there is a new attempt, the old one's have so long to come.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a stream begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Begin {
    From(u64),
    Tail(u32),
    After(StreamId),
}

pub(super) struct StepLog {
    app: Arc<App>,
    news: Receiver<Arc<News>>,
    cursor: Cursor,
    /// What the next look is to find out; none: wait for news first.
    look: Option<Look>,
    /// Runs while there is a new attempt and this one's log is not complete.
    patience: Option<Pin<Box<Sleep>>>,
    /// The first message comes at once, lines or not.
    silent: bool,
    ended: bool,
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    job: JobId,
    ix: StepIx,
    /// Only this attempt is wanted.
    pinned: bool,
    /// None before the first attempt.
    at: Option<(Subject, After)>,
    begin: Begin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Lines,
    /// Also whether the step went on to another attempt, or is final.
    Everything,
    /// The same, and the old attempt has had its time.
    Impatient,
}

/// What a look at the store gave.
struct Seen {
    page: LogPage,
    id: Option<StreamId>,
    cursor: Cursor,
    next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    LookAgain,
    Wait,
    /// There is a new attempt, and this one's log is not complete.
    WaitABit,
}

impl StepLog {
    pub(super) async fn open(
        app: Arc<App>,
        job: JobId,
        ix: StepIx,
        attempt: Option<u32>,
        begin: Begin,
    ) -> Result<StepLog, ApiError> {
        let news = app.bus.subscribe();
        let number = match begin {
            Begin::After(seen) => Some(seen.attempt),
            Begin::From(_) | Begin::Tail(_) => attempt,
        };
        let cursor = Cursor { job, ix, pinned: attempt.is_some(), at: None, begin };
        let cursor = app.read(move |app| cursor.place(app, |attempts| logs::choose(attempts, number))).await?;
        Ok(StepLog { app, news, cursor, look: Some(Look::Everything), patience: None, silent: true, ended: false })
    }

    pub(super) fn respond(self) -> Response {
        let messages = stream::unfold(self, |mut log| async move {
            let message = log.next().await?;
            Some((message, log))
        });
        sse::respond(messages.boxed())
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.ended || self.app.is_stopping() {
                return None;
            }
            let Some(look) = self.look.take() else {
                self.look = Some(self.wait().await?);
                continue;
            };
            let cursor = self.cursor;
            // An error ends the stream; the client comes again, and hears it then.
            let seen = self.app.read(move |app| cursor.look(app, look)).await.ok()?;
            self.cursor = seen.cursor;
            self.ended = seen.page.complete;
            match seen.next {
                Next::LookAgain => (self.look, self.patience) = (Some(Look::Everything), None),
                Next::Wait => self.patience = None,
                Next::WaitABit => {
                    self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
                }
            }
            if !seen.page.lines.is_empty() || seen.page.complete || self.silent {
                self.silent = false;
                return Some(message(&seen.page, seen.id));
            }
        }
    }

    /// Returns when there is something to look at; none when the server stops.
    async fn wait(&mut self) -> Option<Look> {
        let mut shutdown = self.app.shutdown.clone();
        let Some(mut patience) = self.patience.take() else {
            return tokio::select! {
                look = self.listen() => look,
                () = stopped(&mut shutdown) => None,
            };
        };
        let look = tokio::select! {
            // There is a new attempt: lines alone are not all that matters.
            look = self.listen() => look.map(|_| Look::Everything),
            () = &mut patience => Some(Look::Impatient),
            () = stopped(&mut shutdown) => None,
        };
        self.patience = Some(patience);
        look
    }

    async fn listen(&mut self) -> Option<Look> {
        let Cursor { job, ix, at, .. } = self.cursor;
        loop {
            match self.news.recv().await {
                Ok(news) => {
                    if news.events.iter().any(|event| event.job == job && event.ix == Some(ix)) {
                        return Some(Look::Everything);
                    }
                    if let Some(elsewhere) = &news.elsewhere {
                        let moved = elsewhere.jobs.contains(&job);
                        return Some(if moved { Look::Everything } else { Look::Lines });
                    }
                    let grew = |(subject, after): (Subject, After)| {
                        let ours = |log: &&crate::bus::LogNews| log.attempt == subject.id;
                        news.logs.iter().filter(ours).any(|log| log.complete || log.marked || log.last_seq > after.seq)
                    };
                    if at.is_some_and(grew) {
                        return Some(Look::Lines);
                    }
                }
                Err(RecvError::Lagged(_)) => return Some(Look::Everything),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl Cursor {
    /// Finds the attempt to begin with, and the line.
    fn place(
        mut self,
        app: &App,
        choose: impl FnOnce(&[Subject]) -> Result<Option<Subject>, ApiError>,
    ) -> Result<Cursor, ApiError> {
        let attempts = logs::attempts(app, self.job, self.ix)?;
        if let Some(subject) = choose(&attempts)? {
            let after = match self.begin {
                Begin::From(seq) => After::before_line(seq),
                Begin::Tail(tail) => After::before_line(log_read::begin_of_tail(&*app.reader, subject, tail)?),
                Begin::After(seen) => After { seq: seen.seq, sub: seen.sub },
            };
            self.at = Some((subject, after));
        }
        Ok(self)
    }

    fn look(mut self, app: &App, look: Look) -> Result<Seen, ApiError> {
        if self.at.is_none() {
            // Who was here before the first attempt wants to see all of them, however quickly they followed.
            self = self.place(app, |attempts| Ok(attempts.first().copied()))?;
        }
        let Some((subject, after)) = self.at else {
            let complete = logs::is_final(app, self.job, self.ix)?;
            let page = LogPage { lines: Vec::new(), next: 1, complete };
            return Ok(Seen { page, id: None, cursor: self, next: Next::Wait });
        };
        let read = log_read::read(&*app.reader, subject, after, LINES_MAX, Trailing::Now)?;
        self.at = Some((subject, read.reached));
        let id = read.lines.last().map(|line| StreamId { attempt: subject.number, seq: line.seq, sub: line.sub });
        let mut page = LogPage { lines: read.lines, next: read.reached.seq + 1, complete: false };
        let next = if !read.drained {
            Next::LookAgain
        } else if self.pinned {
            page.complete = read.complete;
            Next::Wait
        } else if read.complete || look != Look::Lines {
            self.go_on(app, subject, read.complete, look, &mut page)?
        } else {
            Next::Wait
        };
        Ok(Seen { page, id, cursor: self, next })
    }

    /// All lines of this attempt that are there were read: is there another one, or is this the end?
    fn go_on(
        &mut self,
        app: &App,
        subject: Subject,
        complete: bool,
        look: Look,
        page: &mut LogPage,
    ) -> Result<Next, ApiError> {
        let later = logs::attempts(app, self.job, self.ix)?.into_iter().find(|a| a.number > subject.number);
        match later {
            Some(later) if complete || look == Look::Impatient => {
                self.at = Some((later, After::before_line(1)));
                Ok(Next::LookAgain)
            }
            Some(_) => Ok(Next::WaitABit),
            None => {
                page.complete = complete && logs::is_final(app, self.job, self.ix)?;
                Ok(Next::Wait)
            }
        }
    }
}

fn message(page: &LogPage, id: Option<StreamId>) -> Event {
    let body = serde_json::to_string(page).expect("a page is plain data and always has a JSON form");
    let message = Event::default().data(body);
    match id {
        Some(id) => message.id(id.to_string()),
        None => message,
    }
}
