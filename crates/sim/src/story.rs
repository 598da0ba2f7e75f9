//! What happened, in words and in order, for whoever has to understand a finding. Costs nothing unless somebody listens.
//!
//! ```text
//! 00:12:31.500     4711  server 0 commits: job-3/s1 queued → running (start): granted to host-2
//! ```
//! The number is the event's: `--until 4711` stops right before it. Ids are long and say nothing, so everybody who
//! has a name is called by it: `job-3` is a job, `job-3/s1:2` the second attempt that was offered for one of its steps.

mod names;
mod words;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{Batch, Committed};
use uuid::Uuid;

use names::Names;

/// A story that is being told; clones tell the same one.
#[derive(Clone, Default)]
pub struct Story {
    told: Option<Arc<Mutex<Told>>>,
}

struct Told {
    listener: Listener,
    at: Duration,
    event: u64,
    names: Names,
    lines: VecDeque<String>,
}

/// Who hears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// Every line goes to stdout as it happens.
    Stdout,
    /// The last lines are kept.
    Last(usize),
}

impl Story {
    /// Nobody listens.
    pub fn untold() -> Story {
        Story::default()
    }

    pub fn told_to(listener: Listener) -> Story {
        let (at, event) = (Duration::ZERO, 0);
        let told = Told { listener, at, event, names: Names::default(), lines: VecDeque::new() };
        Story { told: Some(Arc::new(Mutex::new(told))) }
    }

    /// The lines that were kept.
    pub fn lines(&self) -> Vec<String> {
        self.told.as_ref().map_or_else(Vec::new, |told| lock(told).lines.iter().cloned().collect())
    }

    /// The text, with names for ids.
    pub fn named(&self, text: &str) -> String {
        self.told.as_ref().map_or_else(|| text.to_owned(), |told| lock(told).names.put_into(text))
    }

    /// The number of the last event that was told of.
    pub fn last_event(&self) -> u64 {
        self.told.as_ref().map_or(0, |told| lock(told).event)
    }

    /// What is told from now on happens at this time, in this event.
    pub(crate) fn turn_to(&self, at: Duration, event: u64) {
        if let Some(told) = &self.told {
            let mut told = lock(told);
            (told.at, told.event) = (at, event);
        }
    }

    pub(crate) fn add(&self, words: impl FnOnce() -> String) {
        if let Some(told) = &self.told {
            lock(told).add(&words());
        }
    }

    /// Whoever has this id is called so from now on.
    pub(crate) fn call(&self, id: Uuid, name: impl FnOnce() -> String) {
        if let Some(told) = &self.told {
            lock(told).names.call(id, name());
        }
    }

    pub(crate) fn committed(&self, server: usize, batch: &Batch, committed: &Committed) {
        if let Some(told) = &self.told {
            let mut told = lock(told);
            told.names.learn(batch);
            for words in words::of_commit(batch, committed) {
                told.add(&format!("server {server} commits: {words}"));
            }
        }
    }

    /// A frame of messages is on its way.
    pub(crate) fn sent(&self, from: impl FnOnce() -> String, frame: &str) {
        if let Some(told) = &self.told
            && let Some(words) = words::of_frame(frame)
        {
            lock(told).add(&format!("{}: {words}", from()));
        }
    }
}

/// A world that panics while it tells leaves its story to be read.
fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Told {
    fn add(&mut self, words: &str) {
        let (secs, millis) = (self.at.as_secs(), self.at.subsec_millis());
        let (hours, minutes, secs) = (secs / 3600, secs / 60 % 60, secs % 60);
        let words = self.names.put_into(words);
        let line = format!("{hours:02}:{minutes:02}:{secs:02}.{millis:03} {:>8}  {words}", self.event);
        match self.listener {
            Listener::Stdout => println!("{line}"),
            Listener::Last(count) => {
                self.lines.push_back(line);
                if self.lines.len() > count {
                    self.lines.pop_front();
                }
            }
        }
    }
}
