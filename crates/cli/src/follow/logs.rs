//! Reads the logs of a job's steps side by side: one reader per step, its attempts in their order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::{LogPage, LogsQuery};
use client::{Client, StreamItem};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Streams open at once, each a connection. More steps than that rarely run together; the others wait their turn,
/// and lose nothing by it.
const STREAMS_MAX: usize = 64;

/// Pages that wait to be shown; readers stop when the terminal is slow.
const NEWS_MAX: usize = 64;

/// When the next attempt has begun, the log of the one before may be held up by a lost worker. So long it is waited for.
const OVERTAKEN_AFTER: Duration = Duration::from_secs(5);

pub(crate) struct News {
    pub(crate) step: String,
    pub(crate) what: What,
}

pub(crate) enum What {
    Lines(LogPage),
    /// Nothing more of this attempt.
    End(u32, LogEnd),
}

pub(crate) enum LogEnd {
    Complete,
    /// Not complete, but the next attempt has begun.
    Overtaken,
    Failed(client::Error),
}

pub(crate) struct LogReaders {
    client: Client,
    job: String,
    sender: mpsc::Sender<News>,
    receiver: mpsc::Receiver<News>,
    streams: Arc<Semaphore>,
    steps: HashMap<String, StepReader>,
    outstanding: usize,
    /// Ends them all when dropped.
    tasks: JoinSet<()>,
}

struct StepReader {
    wanted: mpsc::UnboundedSender<LogsQuery>,
    /// The number of the last attempt that was asked for.
    opened: u32,
}

impl LogReaders {
    pub(crate) fn new(client: Client, job: String) -> LogReaders {
        let (sender, receiver) = mpsc::channel(NEWS_MAX);
        LogReaders {
            client,
            job,
            sender,
            receiver,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            steps: HashMap::new(),
            outstanding: 0,
            tasks: JoinSet::new(),
        }
    }

    /// Wants all attempts up to this one.
    pub(crate) fn open(&mut self, step: &str, attempt: u32) {
        let opened = self.steps.get(step).map_or(0, |reader| reader.opened);
        for number in opened + 1..=attempt {
            self.want(step, number, None);
        }
    }

    /// Wants this attempt and those that come, none of those before.
    pub(crate) fn open_latest(&mut self, step: &str, attempt: u32, tail: Option<u32>) {
        if attempt > 0 && !self.steps.contains_key(step) {
            self.want(step, attempt, tail);
        }
    }

    /// The next lines of any step. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> News {
        let news = self.receiver.recv().await.expect("we hold a sender ourselves");
        if matches!(news.what, What::End(..)) {
            self.outstanding -= 1;
        }
        news
    }

    /// Attempts whose end was not told yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    fn want(&mut self, step: &str, attempt: u32, tail: Option<u32>) {
        if !self.steps.contains_key(step) {
            let wanted = self.spawn(step.to_owned());
            self.steps.insert(step.to_owned(), StepReader { wanted, opened: 0 });
        }
        let Some(reader) = self.steps.get_mut(step) else { return };
        reader.opened = attempt;
        let query = LogsQuery { attempt: Some(attempt), tail, ..LogsQuery::default() };
        if reader.wanted.send(query).is_ok() {
            self.outstanding += 1;
        }
    }

    fn spawn(&mut self, step: String) -> mpsc::UnboundedSender<LogsQuery> {
        let (wanted, mut queries) = mpsc::unbounded_channel();
        let (client, job) = (self.client.clone(), self.job.clone());
        let (sender, streams) = (self.sender.clone(), self.streams.clone());
        self.tasks.spawn(async move {
            while let Some(query) = queries.recv().await {
                let _stream = streams.acquire().await;
                let end = read(&client, &job, &step, &query, &queries, &sender).await;
                let what = What::End(query.attempt.unwrap_or_default(), end);
                if sender.send(News { step: step.clone(), what }).await.is_err() {
                    return;
                }
            }
        });
        wanted
    }
}

/// Reads one attempt's log to its end. `later` holds the attempts that wait.
async fn read(
    client: &Client,
    job: &str,
    step: &str,
    query: &LogsQuery,
    later: &mpsc::UnboundedReceiver<LogsQuery>,
    sender: &mpsc::Sender<News>,
) -> LogEnd {
    let mut stream = client.log_stream(job, step, query);
    let mut shown = None;
    loop {
        let item = match timeout(OVERTAKEN_AFTER, stream.next()).await {
            Err(_) if later.is_empty() => continue,
            Err(_) => return LogEnd::Overtaken,
            Ok(Err(error)) => return LogEnd::Failed(error),
            Ok(Ok(None)) => return LogEnd::Complete,
            Ok(Ok(Some(item))) => item,
        };
        if let StreamItem::Data(mut page) = item {
            // The server goes on where we were; a line must not be shown twice even if it does not.
            page.lines.retain(|line| Some(line.position()) > shown);
            shown = page.lines.last().map(api::LogLine::position).or(shown);
            if !page.lines.is_empty() {
                let news = News { step: step.to_owned(), what: What::Lines(page) };
                if sender.send(news).await.is_err() {
                    return LogEnd::Complete;
                }
            }
        }
    }
}
