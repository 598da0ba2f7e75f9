//! Carries files between attempts' folders and servers, over HTTP beside the link: out of the way of messages and logs.
//!
//! Each order is a task of its own, a few at a time. It tries again for as long as nobody tells it to stop, from where it
//! was: a server knows how much it has, and what was fetched so far lies in the attempt's folder. Whether something went on is told
//! with every piece; the agent decides how long that may take.
//!
//! In reading order: this file (orders and tries), `store` (bringing files to a server), `fetch` (getting them), `http`.

mod fetch;
mod http;
mod store;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::attempt::{ArtifactSet, Ticket};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::agent::Input;
use crate::link::{Backoff, Reach};
use crate::machine;
use crate::state::Places;

/// Attempts whose files are carried at once: more would only share the same network and disk.
const AT_ONCE: usize = 4;

/// The handle; what is under way ends with it.
pub(crate) struct Depot {
    places: Places,
    reach: Arc<Reach>,
    turns: Arc<Semaphore>,
    news: mpsc::Sender<Input>,
    under_way: HashMap<Ticket, AbortHandle>,
}

/// Why a try came to nothing.
#[derive(Debug)]
enum Setback {
    /// Another try may do better.
    Passing(String),
    /// None will.
    ForGood(String),
}

impl Depot {
    pub(crate) fn new(places: Places, reach: Reach, news: mpsc::Sender<Input>) -> Self {
        Depot {
            places,
            reach: Arc::new(reach),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            news,
            under_way: HashMap::new(),
        }
    }

    pub(crate) fn store(&mut self, ticket: Ticket) {
        let carrier = self.carrier(ticket);
        self.begin(ticket, async move {
            let outcome = carrier.store().await;
            carrier.tell(Input::Stored { ticket, outcome }).await;
        });
    }

    pub(crate) fn fetch(&mut self, ticket: Ticket) {
        let carrier = self.carrier(ticket);
        self.begin(ticket, async move {
            let outcome = carrier.fetch().await;
            carrier.tell(Input::Fetched { ticket, outcome }).await;
        });
    }

    pub(crate) fn stop(&mut self, ticket: Ticket) {
        if let Some(task) = self.under_way.remove(&ticket) {
            task.abort();
        }
    }

    fn begin(&mut self, ticket: Ticket, work: impl Future<Output = ()> + Send + 'static) {
        self.stop(ticket);
        self.under_way.retain(|_, task| !task.is_finished());
        let turns = self.turns.clone();
        let task = tokio::spawn(async move {
            // Closed only with the process.
            let _turn = turns.acquire_owned().await;
            work.await;
        });
        self.under_way.insert(ticket, task.abort_handle());
    }

    fn carrier(&self, ticket: Ticket) -> Carrier {
        let folder = self.places.attempt(ticket);
        Carrier { ticket, folder, reach: self.reach.clone(), news: self.news.clone() }
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        self.under_way.values().for_each(AbortHandle::abort);
    }
}

/// One order.
struct Carrier {
    ticket: Ticket,
    /// The attempt's.
    folder: std::path::PathBuf,
    reach: Arc<Reach>,
    news: mpsc::Sender<Input>,
}

impl Carrier {
    async fn store(&self) -> Result<ArtifactSet, String> {
        let mut backoff = Backoff::default();
        loop {
            match store::store(self).await {
                Ok(set) => return Ok(set),
                Err(setback) => self.after(setback, &mut backoff).await?,
            }
        }
    }

    async fn fetch(&self) -> Result<(), String> {
        let mut backoff = Backoff::default();
        loop {
            match fetch::fetch(self).await {
                Ok(()) => return Ok(()),
                Err(setback) => self.after(setback, &mut backoff).await?,
            }
        }
    }

    /// Waits for the next try; an error if there is none.
    async fn after(&self, setback: Setback, backoff: &mut Backoff) -> Result<(), String> {
        let attempt = self.ticket.attempt;
        match setback {
            Setback::ForGood(why) => {
                tracing::warn!(%attempt, %why, "files of an attempt cannot be carried");
                Err(why)
            }
            Setback::Passing(why) => {
                tracing::warn!(%attempt, %why, "files of an attempt cannot be carried yet");
                sleep(backoff.next(machine::random_fraction()).min(RETRY_MAX)).await;
                Ok(())
            }
        }
    }

    /// Something went on.
    async fn moved(&self) {
        self.tell(Input::FilesMoved { ticket: self.ticket }).await;
    }

    /// Nobody is left to hear it where the worker leaves.
    async fn tell(&self, input: Input) {
        let _ = self.news.send(input).await;
    }
}

/// Somebody waits for it with a step.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// What blocks, on a thread that may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Setback> + Send + 'static) -> Result<T, Setback> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Setback::Passing(error.to_string())),
    }
}
