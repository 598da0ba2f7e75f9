//! What was committed, told to whoever listens: live streams, long polls, waiting clients.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{AttemptId, JobId};
use store::read::EventView;
use tokio::sync::broadcast;

/// Commits that a slow listener may be behind before it has to read from the store again.
const BACKLOG: usize = 1_024;

/// One commit's news.
#[derive(Debug, Default)]
pub struct News {
    pub events: Vec<EventView>,
    pub logs: Vec<LogNews>,
    /// Where several servers write: what is to be read from the store, since others' events may lie in between.
    pub elsewhere: Option<Elsewhere>,
}

/// Somebody looked at what all servers did.
#[derive(Debug, Default)]
pub struct Elsewhere {
    /// Of these there are events. That a log has grown elsewhere is told by nothing.
    pub jobs: BTreeSet<JobId>,
}

/// An attempt's log grew, or was marked, or nothing more is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogNews {
    pub attempt: AttemptId,
    pub last_seq: u64,
    /// The server put a line of its own after it.
    pub marked: bool,
    pub complete: bool,
}

#[derive(Debug, Clone)]
pub struct Bus {
    sender: broadcast::Sender<Arc<News>>,
}

impl Default for Bus {
    fn default() -> Self {
        Bus { sender: broadcast::Sender::new(BACKLOG) }
    }
}

impl Bus {
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<News>> {
        self.sender.subscribe()
    }

    /// Whether it is worth putting news together.
    pub fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub fn publish(&self, news: News) {
        // Nobody listening is the usual case, and no error.
        let _ = self.sender.send(Arc::new(news));
    }
}
