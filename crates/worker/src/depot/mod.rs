//! Carries files between attempts' folders and servers, over HTTP beside the link: out of the way of messages and logs.
//!
//! Each order is a task of its own, and a few have their try at a time. It tries again for as long as nobody tells it to stop, from
//! where it was: a server knows how much it has, and what was fetched so far lies in the attempt's folder. What gets further than
//! anything before it is told as it comes; the agent decides how long it may stand still. What has to begin anew does so a few times only.
//!
//! In reading order: this file (orders and tries), `store` (bringing files to a server), `fetch` (getting them), `http`.

mod fetch;
mod http;
mod store;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::attempt::{ArtifactSet, Ticket};
use runner::folder_io::FolderError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::agent::Input;
use crate::link::{Backoff, Reach};
use crate::machine;
use crate::state::Places;

/// Attempts whose files are carried at once: more would only share the same network and disk.
const AT_ONCE: usize = 4;
/// How often one that waits for its turn says so: well within the agent's patience.
const WAIT_TOLD_EVERY: Duration = Duration::from_secs(60);
/// So often it may begin anew before it is hopeless.
const RESTARTS_MAX: u32 = 3;

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
    /// Another try may do better, but nothing of this one is of use to it.
    Anew(String),
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
        self.under_way.insert(ticket, tokio::spawn(work).abort_handle());
    }

    fn carrier(&self, ticket: Ticket) -> Carrier {
        let news = News { ticket, sender: self.news.clone(), furthest: Arc::default() };
        Carrier { folder: self.places.attempt(ticket), reach: self.reach.clone(), turns: self.turns.clone(), news }
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        self.under_way.values().for_each(AbortHandle::abort);
    }
}

/// One order.
struct Carrier {
    /// The attempt's.
    folder: std::path::PathBuf,
    reach: Arc<Reach>,
    turns: Arc<Semaphore>,
    news: News,
}

/// What the agent hears of an order.
#[derive(Clone)]
struct News {
    ticket: Ticket,
    sender: mpsc::Sender<Input>,
    /// How far any try has got.
    furthest: Arc<AtomicU64>,
}

/// What the tries of one order know of those before them.
#[derive(Debug, Default)]
struct Tries {
    backoff: Backoff,
    restarts: u32,
}

impl Carrier {
    async fn store(&self) -> Result<ArtifactSet, String> {
        let (mut tries, mut offered) = (Tries::default(), None);
        loop {
            let turn = self.turn().await;
            let tried = store::store(self, &mut offered).await;
            drop(turn);
            match tried {
                Ok(set) => return Ok(set),
                Err(setback) => self.after(setback, &mut tries).await?,
            }
        }
    }

    async fn fetch(&self) -> Result<(), String> {
        let (mut tries, mut done) = (Tries::default(), fetch::Done::default());
        loop {
            let turn = self.turn().await;
            let tried = fetch::fetch(self, &mut done).await;
            drop(turn);
            match tried {
                Ok(()) => return Ok(()),
                Err(setback) => self.after(setback, &mut tries).await?,
            }
        }
    }

    /// Waits until few enough others are at it. Whoever waits is not stuck, and says so.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let mut turn = pin!(self.turns.clone().acquire_owned());
        loop {
            tokio::select! {
                // Closed only with the process.
                turn = &mut turn => return turn.ok(),
                () = sleep(WAIT_TOLD_EVERY) => {
                    let ticket = self.news.ticket;
                    self.tell(Input::FilesWaited { ticket, waited: WAIT_TOLD_EVERY }).await;
                }
            }
        }
    }

    /// Waits for the next try; an error if there is none.
    async fn after(&self, setback: Setback, tries: &mut Tries) -> Result<(), String> {
        let attempt = self.news.ticket.attempt;
        let why = match setback {
            Setback::ForGood(why) => {
                tracing::warn!(%attempt, %why, "files of an attempt cannot be carried");
                return Err(why);
            }
            Setback::Anew(why) => {
                tries.restarts += 1;
                if tries.restarts >= RESTARTS_MAX {
                    tracing::warn!(%attempt, %why, "files of an attempt cannot be carried");
                    return Err(format!("{why}, and that {RESTARTS_MAX} times"));
                }
                why
            }
            Setback::Passing(why) => why,
        };
        tracing::warn!(%attempt, %why, "files of an attempt cannot be carried yet");
        sleep(tries.backoff.next(machine::random_fraction()).min(RETRY_MAX)).await;
        Ok(())
    }

    /// Nobody is left to hear it where the worker leaves.
    async fn tell(&self, input: Input) {
        let _ = self.news.sender.send(input).await;
    }
}

impl News {
    /// So many bytes are where they belong. It is news where none of the tries had got so far.
    fn reached(&self, place: u64) {
        if self.furthest.fetch_max(place, Ordering::Relaxed) < place {
            // A full queue has news enough.
            let _ = self.sender.try_send(Input::FilesMoved { ticket: self.ticket });
        }
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

/// A disk that hesitates, or no file left to open, says nothing about the folder.
fn unreadable(error: FolderError) -> Setback {
    match error {
        FolderError::Io { ref source, .. } if may_pass(source) => Setback::Passing(error.to_string()),
        error => Setback::ForGood(error.to_string()),
    }
}

/// Whether another try may find what this one did not.
fn may_pass(error: &std::io::Error) -> bool {
    !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
