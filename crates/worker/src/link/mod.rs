//! The link to a server: connect, carry messages, and come back for ever when it is lost.
//!
//! One task (`keep`) owns it. It tells the shell about each connection with a `LinkEvent::Up` that holds the way
//! to send on it; dropping that closes the connection. Where and when it comes back is for [`Search`] to decide.

pub(crate) mod address;
mod backoff;
pub(crate) mod connect;
mod search;
mod session;

use std::time::Duration;

use protocol::link::{ServerMessage, WorkerMessage};
use tokio::sync::mpsc::{self, Sender, error::TrySendError};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use crate::error::WorkerError;
use crate::machine;
use crate::ship::FrameSender;
use address::Address;
pub use backoff::{Backoff, probe_interval};
use connect::{ConnectError, Socket};
pub use search::{Search, Setback, Then};
use session::Outgoing;

/// Messages that wait for the socket. More than a worker can have to say unless the socket is dead.
const CONTROL_QUEUE: usize = 64 * 1024;
/// Log frames that wait for the socket; the window of unacknowledged bytes is the real limit.
const LOG_QUEUE: usize = 2;

#[derive(Debug)]
pub(crate) enum LinkEvent {
    Up(LinkSender),
    Frame(Vec<ServerMessage>),
    Down {
        why: String,
    },
    /// It makes no sense to go on.
    Failed(WorkerError),
}

/// The way out of one connection.
#[derive(Debug)]
pub(crate) struct LinkSender {
    control: Sender<WorkerMessage>,
    pub(crate) logs: FrameSender,
    /// Tells the connection's task that this was dropped, even while it is busy writing.
    _hold: oneshot::Sender<()>,
}

impl LinkSender {
    /// `false`: so much waits that the connection must be dead. A connection that has just closed takes everything
    /// and loses it, as the network would.
    pub(crate) fn send(&self, message: WorkerMessage) -> bool {
        !matches!(self.control.try_send(message), Err(TrySendError::Full(_)))
    }
}

/// What is needed to reach the server as this worker.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    pub(crate) servers: Vec<Address>,
    pub(crate) credential: String,
    pub(crate) credential_path: std::path::PathBuf,
    pub(crate) no_reconnect: bool,
}

/// Keeps a link for as long as somebody listens to `events`.
pub(crate) async fn keep(reach: Reach, events: Sender<LinkEvent>) {
    let mut search = Search::new(reach.servers.len(), reach.no_reconnect);
    loop {
        let address = &reach.servers[search.next_server()];
        let failure = match connect::connect_link(address, &reach.credential).await {
            Ok(socket) => {
                if !carry(socket, &events, &mut search).await {
                    return;
                }
                None
            }
            Err(error) => Some(error),
        };
        let setback = failure.as_ref().map_or(Setback::Lost, ConnectError::setback);
        let Then::TryAfter { delay, probe } = search.after(setback, machine::random_fraction()) else {
            if let Some(error) = failure {
                let _ = events.send(LinkEvent::Failed(reach.explain(&error))).await;
            }
            return;
        };
        if let Some(error) = failure {
            tracing::warn!(%error, "no link to the server; trying again");
        }
        tokio::select! {
            () = wait(delay, probe, &reach.servers) => {}
            () = events.closed() => return,
        }
    }
}

impl Reach {
    /// Why the search for a server was given up.
    fn explain(&self, error: &ConnectError) -> WorkerError {
        match error {
            ConnectError::Unauthorized { .. } => WorkerError::CredentialRefused { path: self.credential_path.clone() },
            _ => WorkerError::Unreachable { why: error.to_string() },
        }
    }
}

/// Has the shell use this connection until it ends. `false`: there is no shell any more.
async fn carry(socket: Socket, events: &Sender<LinkEvent>, search: &mut Search) -> bool {
    let (control, control_queue) = mpsc::channel(CONTROL_QUEUE);
    let (logs, log_queue) = mpsc::channel(LOG_QUEUE);
    let (hold, let_go) = oneshot::channel();
    if events.send(LinkEvent::Up(LinkSender { control, logs, _hold: hold })).await.is_err() {
        return false;
    }
    let outgoing = Outgoing { control: control_queue, logs: log_queue, let_go };
    let why = session::carry(socket, outgoing, events, search).await;
    events.send(LinkEvent::Down { why }).await.is_ok()
}

/// Waits for the delay, or, with `probe`, until a server can be reached again.
async fn wait(delay: Duration, probe: bool, servers: &[Address]) {
    if !probe {
        return sleep(delay).await;
    }
    let until = Instant::now() + delay;
    loop {
        let next_probe = Instant::now() + probe_interval(machine::random_fraction());
        if next_probe >= until {
            return sleep_until(until).await;
        }
        sleep_until(next_probe).await;
        for address in servers {
            if connect::connect_tcp(address).await.is_ok() {
                return;
            }
        }
    }
}
