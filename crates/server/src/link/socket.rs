//! The WebSocket around a [`Machine`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use engine::WorkerId;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use protocol::link::{FRAME_BYTES_MAX, LINK_PATH, RefusedCode, ServerMessage, TextFrame};
use tokio::sync::mpsc;

use crate::app::{App, stopped};
use crate::dispatch::LinkId;
use crate::http::{ApiError, bearer};
use crate::ledger::{Command, LedgerDown, LinkEvent, LinkOut, LinkSender, LogFrame};

use super::machine::{Fault, Inbound, Machine, Silence};

/// A worker that has nothing to say yet is not kept waiting for.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the last messages of a link may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Kept per idle link, so it stays small; log frames are read in several goes.
const READ_BUFFER_BYTES: usize = 8 * 1024;

/// A text frame is closed when it has this size: with one more message of a usual size it is still allowed.
const TEXT_BYTES_SOFT_MAX: usize = FRAME_BYTES_MAX / 2;

/// Bytes that may wait for the kernel before writing stops.
const WRITE_BUFFER_MAX: usize = 4 * FRAME_BYTES_MAX;

static NEXT_LINK: AtomicU64 = AtomicU64::new(1);

/// `ping`: after so long without a frame a worker is asked whether it is there.
pub fn routes(ping: Duration) -> Router<Arc<App>> {
    Router::new().route(LINK_PATH, get(move |app, headers, socket| upgrade(app, headers, socket, ping)))
}

async fn upgrade(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
    ping: Duration,
) -> Result<Response, ApiError> {
    let worker = app.access.worker(bearer(&headers)?).await?;
    let upgrade = upgrade
        .max_message_size(FRAME_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER_MAX);
    Ok(upgrade.on_upgrade(move |socket| serve(app, worker, socket, ping)))
}

async fn serve(app: Arc<App>, worker: WorkerId, socket: WebSocket, ping: Duration) {
    let link = LinkId(NEXT_LINK.fetch_add(1, Ordering::Relaxed));
    let (sink, stream) = socket.split();
    let (sender, queue) = LinkSender::channel();
    let mut writer = tokio::spawn(write(sink, queue));
    let mut reader = Reader { app: app.clone(), link, worker, sender, ping, machine: Machine::default() };
    let mut shutdown = app.shutdown.clone();
    let cut = reader.sender.clone();
    let reason = tokio::select! {
        reason = reader.read(stream) => reason,
        () = cut.cut_off() => End::NotRead,
        () = stopped(&mut shutdown) => {
            let message = "the server is stopping; come back".to_owned();
            reader.sender.send(ServerMessage::Refused { code: RefusedCode::GoingAway, message });
            End::Stopping
        }
    };
    if let End::Fault(fault) = &reason {
        let (code, message) = (fault.code(), fault.to_string());
        reader.sender.send(ServerMessage::Refused { code, message });
    }
    reader.sender.close();
    tracing::debug!(%worker, link = link.0, %reason, "a link ended");
    // The ledger is told whatever the reason; if it is gone, so is all that this would tell it.
    let _ = app.ledger.send(Command::Link(LinkEvent::Closed { link })).await;
    drop((reader, cut, app));
    // What is queued still goes out, to a worker that reads.
    if tokio::time::timeout(LAST_WORDS, &mut writer).await.is_err() {
        writer.abort();
    }
}

#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the worker closed it")]
    Closed,
    #[error("no hello came")]
    NoHello,
    #[error("it was silent")]
    Silent,
    #[error("the worker does not read")]
    NotRead,
    #[error("the server is stopping")]
    Stopping,
    #[error("the socket failed: {0}")]
    Socket(#[from] axum::Error),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(transparent)]
    Ledger(#[from] LedgerDown),
}

struct Reader {
    app: Arc<App>,
    link: LinkId,
    worker: WorkerId,
    sender: LinkSender,
    ping: Duration,
    machine: Machine,
}

impl Reader {
    async fn read(&mut self, mut stream: SplitStream<WebSocket>) -> End {
        match tokio::time::timeout(HELLO_TIMEOUT, stream.next()).await {
            Err(_) => return End::NoHello,
            Ok(frame) => {
                if let Err(end) = self.take(frame).await {
                    return end;
                }
            }
        }
        loop {
            let outcome = match tokio::time::timeout(self.ping, stream.next()).await {
                Ok(frame) => self.take(frame).await,
                Err(_) => self.silence(),
            };
            if let Err(end) = outcome {
                return end;
            }
        }
    }

    fn silence(&mut self) -> Result<(), End> {
        match self.machine.silence() {
            Silence::Ping(n) => {
                self.sender.send(ServerMessage::Ping { n });
                Ok(())
            }
            Silence::Lost => Err(End::Silent),
        }
    }

    async fn take(&mut self, frame: Option<Result<Message, axum::Error>>) -> Result<(), End> {
        match frame.transpose()? {
            None | Some(Message::Close(_)) => Err(End::Closed),
            Some(Message::Text(text)) => {
                for inbound in self.machine.text(&text)? {
                    self.pass_on(inbound).await?;
                }
                Ok(())
            }
            Some(Message::Binary(bytes)) => {
                let inbound = self.machine.binary(&bytes)?;
                self.pass_on(inbound).await
            }
            Some(Message::Ping(_) | Message::Pong(_)) => {
                self.machine.other();
                Ok(())
            }
        }
    }

    async fn pass_on(&mut self, inbound: Inbound) -> Result<(), End> {
        let (link, worker) = (self.link, self.worker);
        let ledger = &self.app.ledger;
        match inbound {
            Inbound::Reply(message) => {
                self.sender.send(message);
            }
            Inbound::Hello(hello) => {
                let sender = self.sender.clone();
                ledger.send(Command::Link(LinkEvent::Hello { link, worker, hello, sender })).await?;
            }
            Inbound::Messages(messages) => {
                ledger.send(Command::Link(LinkEvent::Messages { link, messages })).await?;
            }
            Inbound::Log(header, blocks) => {
                ledger.send_log(LogFrame { link, header, blocks }).await?;
            }
        }
        Ok(())
    }
}

/// Sends what the ledger has for this worker: all that is ready, in one frame.
async fn write(mut sink: SplitSink<WebSocket, Message>, mut queue: mpsc::Receiver<LinkOut>) {
    let mut open = true;
    while open && let Some(first) = queue.recv().await {
        let mut frame = TextFrame::default();
        let mut next = Some(first);
        while let Some(out) = next {
            match out {
                LinkOut::Message(message) => frame.push(&message),
                LinkOut::Close => {
                    open = false;
                    break;
                }
            }
            next = if frame.len() < TEXT_BYTES_SOFT_MAX { queue.try_recv().ok() } else { None };
        }
        if let Some(text) = frame.finish()
            && sink.send(Message::Text(Utf8Bytes::from(text))).await.is_err()
        {
            return;
        }
    }
    let _ = sink.close().await;
}
