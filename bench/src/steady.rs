//! A light worker that keeps what it was given and comes back for it: real protocol, real socket, no processes. Its
//! steps run until it is told to end them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use protocol::attempt::Ticket;
use protocol::link::{
    Heartbeat, HeldAttempt, HeldState, Hello, ServerMessage, VerdictKind, Welcome, WorkerMessage, decode_text,
    encode_log, encode_text,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at, sleep};
use tokio_tungstenite::tungstenite::Message;

use crate::Outcome;
use crate::simulated::{self, Socket};

/// As a real worker waits after a link was lost, and while a server is away.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// What a worker tells the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// A start was granted.
    Running,
    /// Welcomed, with leave to go on with every attempt that it brought.
    Connected,
    /// The server has an end and its log.
    Forgotten,
}

#[derive(Debug)]
pub(crate) struct SteadyWorker {
    /// Of its servers, which it tries in turn.
    addresses: Vec<String>,
    credential: String,
    hello: Hello,
    processed: u64,
    held: BTreeMap<Ticket, HeldAttempt>,
}

impl SteadyWorker {
    /// Enrols at the first of its servers.
    pub(crate) async fn enroll(addresses: Vec<String>, token: &str, name: &str, slots: u32) -> Outcome<SteadyWorker> {
        let state_id = simulated::random_id()?;
        let first = addresses.first().ok_or("a worker has at least one server")?;
        let credential = simulated::enroll(first, token, name, state_id).await?;
        let hello = simulated::hello(name, slots, state_id)?;
        Ok(SteadyWorker { addresses, credential, hello, processed: 0, held: BTreeMap::new() })
    }

    /// Connects, and connects again, until `end` has come and the server has forgotten all that it held.
    pub(crate) async fn serve(mut self, mut end: watch::Receiver<bool>, news: UnboundedSender<News>) -> Outcome<()> {
        for turn in 0.. {
            let address = &self.addresses[turn % self.addresses.len()];
            if let Ok(socket) = simulated::open(address, &self.credential).await
                && self.link(socket, &mut end, &news).await?
            {
                return Ok(());
            }
            let delay = FIRST_DELAY.mul_f64(1.0 - 0.5 * random_fraction()?);
            sleep(delay.min(PROBE_INTERVAL)).await;
        }
        Ok(())
    }

    /// One link. Whether all is done; a link that was only lost is no failure.
    async fn link(
        &mut self,
        mut socket: Socket,
        end: &mut watch::Receiver<bool>,
        news: &UnboundedSender<News>,
    ) -> Outcome<bool> {
        let mut hello = self.hello.clone();
        (hello.processed, hello.held) = (self.processed, self.held.values().cloned().collect());
        let Ok(welcome) = simulated::greet(&mut socket, hello).await else { return Ok(false) };
        self.welcomed(&welcome)?;
        let _ = news.send(News::Connected);
        let heartbeat = Duration::from_millis(welcome.settings.heartbeat_ms);
        let mut beats = interval_at(Instant::now() + heartbeat, heartbeat);
        let mut ending = false;
        loop {
            let sent = tokio::select! {
                frame = socket.next() => match frame {
                    Some(Ok(Message::Text(text))) => {
                        let answers = self.answers(decode_text(&text)?, news)?;
                        if ending && self.held.is_empty() {
                            return Ok(true);
                        }
                        say(&mut socket, &answers).await
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(false),
                    // Pings of the WebSocket itself are answered by the library.
                    Some(Ok(_)) => true,
                },
                _ = beats.tick() => say(&mut socket, &[self.beat()]).await,
                () = wanted(end), if !ending => {
                    ending = true;
                    self.end_all(&mut socket).await
                }
            };
            if !sent {
                return Ok(false);
            }
        }
    }

    /// Nothing may be given up, stopped or forgotten because a server crashed.
    fn welcomed(&mut self, welcome: &Welcome) -> Outcome<()> {
        self.hello.last_epoch = welcome.epoch;
        self.processed = 0;
        if let Some(hard) = welcome.verdicts.iter().find(|verdict| verdict.verdict != VerdictKind::Continue) {
            return Err(format!("a running attempt got the verdict {:?}", hard.verdict).into());
        }
        if welcome.verdicts.len() != self.held.len() {
            return Err(format!("{} verdicts for {} attempts", welcome.verdicts.len(), self.held.len()).into());
        }
        Ok(())
    }

    fn answers(&mut self, messages: Vec<ServerMessage>, news: &UnboundedSender<News>) -> Outcome<Vec<WorkerMessage>> {
        let mut answers = Vec::new();
        for message in messages {
            match message {
                ServerMessage::Offer { number, spec } => {
                    self.processed = number;
                    let (ticket, job, step) = (spec.ticket, spec.job, spec.step);
                    let (state, log_first_seq, log_last_seq, events) = (HeldState::Waiting, 0, 0, 0);
                    let held =
                        HeldAttempt { ticket, job, step, state, log_first_seq, log_last_seq, events, unsure: false };
                    self.held.insert(ticket, held);
                    answers.push(WorkerMessage::Accept { ticket });
                }
                ServerMessage::Go { number, ticket } => {
                    self.processed = number;
                    let held = self.held.get_mut(&ticket).ok_or("a start was granted that nobody asked for")?;
                    held.state = HeldState::Running;
                    let _ = news.send(News::Running);
                }
                ServerMessage::Forget { number, ticket } => {
                    self.processed = number;
                    self.held.remove(&ticket).ok_or("an attempt was to be forgotten twice")?;
                    let _ = news.send(News::Forgotten);
                }
                ServerMessage::Ping { n } => answers.push(WorkerMessage::Pong { n }),
                ServerMessage::LogAck { .. } | ServerMessage::Pong { .. } => {}
                other => return Err(format!("a light worker does not expect {other:?}").into()),
            }
        }
        Ok(answers)
    }

    /// Every step ends well, with an empty log. Whether it could be said.
    async fn end_all(&mut self, socket: &mut Socket) -> bool {
        let tickets: Vec<Ticket> = self.held.keys().copied().collect();
        let ended = |ticket: &Ticket| WorkerMessage::Ended { ticket: *ticket, end: simulated::end() };
        if !say(socket, &tickets.iter().map(ended).collect::<Vec<_>>()).await {
            return false;
        }
        for ticket in tickets {
            let header = simulated::whole_and_empty(ticket);
            if socket.send(Message::binary(encode_log(&header, &[]))).await.is_err() {
                return false;
            }
        }
        true
    }

    fn beat(&self) -> WorkerMessage {
        let busy = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        WorkerMessage::Heartbeat(Heartbeat {
            processed: self.processed,
            held: self.held.keys().copied().collect(),
            free: self.hello.slots.saturating_sub(busy),
            ahead: 0,
            draining: false,
            runners: Vec::new(),
        })
    }
}

/// Until the end is wanted. Whoever decides that lives longer than all workers.
async fn wanted(end: &mut watch::Receiver<bool>) {
    let _ = end.wait_for(|end| *end).await;
}

/// Whether it could be said.
async fn say(socket: &mut Socket, messages: &[WorkerMessage]) -> bool {
    messages.is_empty() || socket.send(Message::text(encode_text(messages))).await.is_ok()
}

/// From 0 to 1.
fn random_fraction() -> Outcome<f64> {
    let mut byte = [0; 4];
    getrandom::fill(&mut byte)?;
    Ok(f64::from(u32::from_le_bytes(byte)) / f64::from(u32::MAX))
}
