//! One connection, from the handshake to its end: frames in, frames out.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use protocol::link::{FRAME_BYTES_MAX, ServerMessage, TextFrame, WorkerMessage, decode_text};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_tungstenite::tungstenite::Message;

use super::LinkEvent;
use super::connect::Socket;
use super::search::Search;

/// A text frame is closed when it has this size: with one more message of the greatest size it is still allowed.
const TEXT_BYTES_SOFT_MAX: usize = FRAME_BYTES_MAX / 4;

/// How long the last messages and the goodbye may take once this side has let go of the link.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// What the shell wants to have sent.
pub(super) struct Outgoing {
    pub(super) control: Receiver<WorkerMessage>,
    pub(super) logs: Receiver<Vec<u8>>,
    /// Ends when the shell lets go of the link.
    pub(super) let_go: oneshot::Receiver<()>,
}

/// Carries messages until either side has enough. Returns why it ended.
pub(super) async fn carry(
    socket: Socket,
    outgoing: Outgoing,
    events: &Sender<LinkEvent>,
    search: &mut Search,
) -> String {
    let Outgoing { control, logs, let_go } = outgoing;
    let (sink, stream) = socket.split();
    tokio::select! {
        why = read(stream, events, search) => why,
        why = write(sink, control, logs) => why,
        // A write to a dead peer can hang for many minutes.
        why = give_up(let_go) => why,
    }
}

async fn give_up(let_go: oneshot::Receiver<()>) -> String {
    // It ends with an error when the other half is dropped, which is the signal.
    let _ = let_go.await;
    sleep(CLOSE_PATIENCE).await;
    "closed by this worker".to_owned()
}

async fn read(mut stream: SplitStream<Socket>, events: &Sender<LinkEvent>, search: &mut Search) -> String {
    loop {
        let text = match stream.next().await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_))) | None => return "the server closed it".to_owned(),
            // A server sends no logs, and pings of the WebSocket are answered by the library.
            Some(Ok(_)) => continue,
            Some(Err(error)) => return error.to_string(),
        };
        let messages: Vec<ServerMessage> = match decode_text(&text) {
            Ok(messages) => messages,
            Err(error) => return format!("a frame from the server cannot be understood: {error}"),
        };
        messages.iter().for_each(|message| search.heard(message));
        if events.send(LinkEvent::Frame(messages)).await.is_err() {
            return "the worker is gone".to_owned();
        }
    }
}

/// Control goes before logs: a log frame is sent only when no message waits.
async fn write(
    mut sink: SplitSink<Socket, Message>,
    mut control: Receiver<WorkerMessage>,
    mut logs: Receiver<Vec<u8>>,
) -> String {
    loop {
        let sent = tokio::select! {
            biased;
            message = control.recv() => match message {
                Some(first) => sink.send(Message::text(gather(first, &mut control))).await,
                None => {
                    // Until the server has answered the goodbye: a socket that is closed with something unread in it
                    // may take the last messages with it.
                    let _ = sink.close().await;
                    return std::future::pending().await;
                }
            },
            Some(frame) = logs.recv() => sink.send(Message::binary(frame)).await,
        };
        if let Err(error) = sent {
            return error.to_string();
        }
    }
}

/// One text frame of everything that is ready.
fn gather(first: WorkerMessage, control: &mut Receiver<WorkerMessage>) -> String {
    let mut frame = TextFrame::default();
    let mut next = Some(first);
    while let Some(message) = next {
        frame.push(&message);
        next = if frame.len() < TEXT_BYTES_SOFT_MAX { control.try_recv().ok() } else { None };
    }
    frame.finish().unwrap_or_default()
}
