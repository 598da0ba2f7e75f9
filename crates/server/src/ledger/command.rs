//! What can be asked of the ledger, and how it answers.

use std::sync::Arc;

use engine::definition::Definition;
use engine::{Clocks, Event, Job, JobId, Rejection, Time, WorkerId};
use protocol::attempt::Ticket;
use protocol::link::{Hello, LogHeader, ServerMessage, WorkerMessage};
use serde_json::Value;
use store::read::StaleAttempt;
use store::rows::{DefinitionRow, TriggerRow};
use store::{Due, Store, StoreError};
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

use super::schedules::{TriggerError, TriggerOrder};
use super::sweep::Swept;
use crate::dispatch::{LinkId, Roster};
use crate::retention::Progress;
use crate::schedule::Book;

use super::again::{Again, AgainError, Settled};
use super::fleet::{FleetAnswer, FleetError, FleetOrder};
use super::groups::GroupFull;
use super::outbox::Delivered;
use super::recover::RecoverOrder;
use super::retain::PruneOrder;

/// One thing to do. Commands that arrive together are decided together and committed together.
pub enum Command {
    Submit(Box<Submit>, oneshot::Sender<Result<Submitted, SubmitError>>),
    Event {
        job: JobId,
        event: Event,
        reply: oneshot::Sender<Result<(), EventError>>,
    },
    /// A step settled by hand, or a job that goes on after one that ended.
    Again(Box<Again>, oneshot::Sender<Result<Settled, AgainError>>),
    /// An operator looks for what is silent, or gives it up.
    Recover(RecoverOrder, oneshot::Sender<Result<Vec<StaleAttempt>, EventError>>),
    /// An operator's word on workers or on dispatch.
    Fleet(FleetOrder, oneshot::Sender<Result<FleetAnswer, FleetError>>),
    /// The tasks' triggers, after a change of any.
    Triggers(Arc<Book>, oneshot::Sender<()>),
    /// An operator's word on a trigger.
    Trigger(TriggerOrder, oneshot::Sender<Result<TriggerRow, TriggerError>>),
    Link(LinkEvent),
    /// A change that concerns no job: tokens, enrolment, pushed tasks. Its own transaction, on the writer.
    WithStore(StoreCall),
    /// Another server says that it changed something: it is looked at now, and not only at the next look.
    Changed,
    /// What is old is to go now.
    Prune(PruneOrder, oneshot::Sender<Progress>),
    /// A look at who is connected.
    Inspect(Look),
    /// What became of a delivery.
    Delivered(Delivered),
    /// A check time has come; made by the ledger itself.
    Check(Due),
    /// A trigger's time has come; made by the ledger itself.
    Fire(String),
    /// Found by a sweep; made by the ledger itself.
    Swept(Swept),
}

pub(super) type StoreCall = Box<dyn FnOnce(&mut dyn Store, Time) + Send>;
pub(super) type Look = Box<dyn FnOnce(&Roster) + Send>;

/// A job to be made.
pub struct Submit {
    pub definition: Arc<Definition>,
    pub row: DefinitionRow,
    /// The tasks that its steps begin, near and far.
    pub children: Vec<DefinitionRow>,
    pub input: Value,
    pub submitted_by: String,
    pub idempotency: Option<IdempotencyKey>,
    /// The trigger that was called for it; refused while that is paused.
    pub trigger: Option<String>,
}

pub struct IdempotencyKey {
    pub token: Uuid,
    pub key: String,
    /// Of the whole request: the same key with another request is a mistake.
    pub request_hash: [u8; 32],
}

#[derive(Debug, Clone)]
pub struct Submitted {
    pub job: JobId,
    /// The key was used before: this is the job from then.
    pub repeated: bool,
    /// A small new job, so that whoever answers for it need not read what was only just written.
    pub made: Option<Box<Made>>,
}

impl Submitted {
    pub(crate) fn plain(job: JobId, repeated: bool) -> Submitted {
        Submitted { job, repeated, made: None }
    }
}

/// A job as the commit left it that made it.
#[derive(Debug, Clone)]
pub struct Made {
    pub job: Job,
    pub clocks: Clocks,
    /// What happened to the job since has a higher number.
    pub last_event: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    #[error("the trigger is paused")]
    Paused,
    /// Its group cannot be told from its input.
    #[error("{0}")]
    Group(String),
    #[error(transparent)]
    GroupFull(GroupFull),
    /// It was not to be read in the middle of a round: nothing is known, and nothing was done.
    #[error("the database is away: {0}")]
    Away(String),
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<StoreError> for SubmitError {
    fn from(error: StoreError) -> SubmitError {
        match error {
            StoreError::Unavailable { message } => SubmitError::Away(message),
            error => SubmitError::Internal(error.to_string()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EventError {
    #[error("there is no such job")]
    NoSuchJob,
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// It was not to be read in the middle of a round: nothing is known, and nothing is wrong with the job.
    #[error("the database is away: {0}")]
    Away(String),
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<StoreError> for EventError {
    fn from(error: StoreError) -> EventError {
        match error {
            StoreError::Unavailable { message } => EventError::Away(message),
            other => EventError::Internal(other.to_string()),
        }
    }
}

/// What a worker's connection brings.
pub enum LinkEvent {
    Hello {
        link: LinkId,
        worker: WorkerId,
        hello: Box<Hello>,
        sender: LinkSender,
    },
    Messages {
        link: LinkId,
        messages: Vec<WorkerMessage>,
    },
    Log(LogFrame),
    /// There was no room for a frame of this log: its worker is told where the log stands, and sends it again.
    LogDropped {
        link: LinkId,
        ticket: Ticket,
    },
    Closed {
        link: LinkId,
    },
}

/// Blocks that were checked when they came in.
pub struct LogFrame {
    pub link: LinkId,
    pub header: LogHeader,
    pub blocks: Vec<u8>,
}

/// The way to one connected worker. Bounded: a worker that does not read loses its link, never the server its memory.
#[derive(Debug, Clone)]
pub struct LinkSender {
    queue: mpsc::Sender<LinkOut>,
    /// Rung when not even the word that the link is closed finds room.
    cut: Arc<Notify>,
}

#[derive(Debug)]
pub enum LinkOut {
    Message(ServerMessage),
    Close,
}

impl LinkSender {
    /// Messages that may wait for one worker: all its slots several times over.
    pub const QUEUE_MAX: usize = 16_384;

    pub fn channel() -> (LinkSender, mpsc::Receiver<LinkOut>) {
        let (queue, receiver) = mpsc::channel(LinkSender::QUEUE_MAX);
        (LinkSender { queue, cut: Arc::new(Notify::new()) }, receiver)
    }

    /// Whether the worker's queue took it.
    pub fn send(&self, message: ServerMessage) -> bool {
        self.queue.try_send(LinkOut::Message(message)).is_ok()
    }

    pub fn close(&self) {
        if self.queue.try_send(LinkOut::Close).is_err() {
            self.cut.notify_one();
        }
    }

    /// Returns when the link is to end although its worker does not read.
    pub async fn cut_off(&self) {
        self.cut.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_worker_that_does_not_read_is_cut_off() {
        let (sender, _queue) = LinkSender::channel();
        let fits = (0..LinkSender::QUEUE_MAX + 1).filter(|n| sender.send(ServerMessage::Ping { n: *n as u64 })).count();
        assert_eq!(fits, LinkSender::QUEUE_MAX);
        assert_eq!(sender.cut_off().now_or_never(), None);
        sender.close();
        assert_eq!(sender.cut_off().now_or_never(), Some(()));
    }
}
