//! A worker that speaks the real protocol over a real WebSocket, and whose steps end at once with an empty log.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use protocol::attempt::{End, EndResult, Ticket};
use protocol::link::{
    EnrollRequest, EnrollResponse, Heartbeat, Hello, LINK_PATH, LogHeader, MissingCause, PROTOCOL_VERSION,
    ServerMessage, Welcome, WorkerMessage, decode_text, encode_log, encode_text,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use uuid::Uuid;

use crate::Outcome;
use crate::bowline::Server;

/// Kept per link, so it stays small: thousands of them share this process.
const READ_BUFFER_BYTES: usize = 4 * 1024;

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Between two attempts that end.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// An attempt that is under way ends in far less.
const REST: Duration = Duration::from_secs(1);

const ENROLL_PATH: &str = "/api/worker/enroll";

/// Connected and welcomed.
#[derive(Debug)]
pub(crate) struct SimulatedWorker {
    socket: Socket,
    heartbeat: Duration,
    slots: u32,
    /// The highest number among offers, goes and forgets.
    processed: u64,
    held: HashSet<Ticket>,
}

/// What one frame from the server comes to.
#[derive(Debug, Default)]
struct Answers {
    messages: Vec<WorkerMessage>,
    logs: Vec<LogHeader>,
    forgotten: usize,
}

impl SimulatedWorker {
    pub(crate) async fn connect(server: &Server<'_>, name: &str, slots: u32) -> Outcome<SimulatedWorker> {
        let address = server.address();
        let state_id = random_id()?;
        let credential = enroll(address, &server.enroll_token(1).await?, name, state_id).await?;
        let mut socket = open(address, &credential).await?;
        let welcome = greet(&mut socket, hello(name, slots, state_id)?).await?;
        let heartbeat = Duration::from_millis(welcome.settings.heartbeat_ms);
        Ok(SimulatedWorker { socket, heartbeat, slots, processed: 0, held: HashSet::new() })
    }

    /// Takes all that is offered until the link ends, and tells how many attempts the server let it forget.
    pub(crate) async fn work(mut self, forgotten: UnboundedSender<usize>) -> Outcome<()> {
        let mut beats = interval_at(Instant::now() + self.heartbeat, self.heartbeat);
        loop {
            tokio::select! {
                frame = self.socket.next() => match frame.transpose()? {
                    Some(Message::Text(text)) => {
                        let answers = self.answers(decode_text(&text)?)?;
                        if answers.forgotten > 0 && forgotten.send(answers.forgotten).is_err() {
                            return Ok(());
                        }
                        self.send(answers).await?;
                    }
                    Some(Message::Close(_)) | None => return Err("the server closed a simulated worker's link".into()),
                    // Pings of the WebSocket itself are answered by the library.
                    Some(_) => {}
                },
                _ = beats.tick() => {
                    let beat = self.beat();
                    self.socket.send(Message::text(encode_text(&[beat]))).await?;
                }
            }
        }
    }

    fn answers(&mut self, messages: Vec<ServerMessage>) -> Outcome<Answers> {
        let mut answers = Answers::default();
        for message in messages {
            match message {
                ServerMessage::Offer { number, spec } => {
                    self.processed = number;
                    self.held.insert(spec.ticket);
                    answers.messages.push(WorkerMessage::Accept { ticket: spec.ticket });
                }
                ServerMessage::Go { number, ticket } => {
                    self.processed = number;
                    answers.messages.push(WorkerMessage::Ended { ticket, end: end() });
                    answers.logs.push(whole_and_empty(ticket));
                }
                ServerMessage::Forget { number, ticket } => {
                    self.processed = number;
                    if !self.held.remove(&ticket) {
                        return Err(format!("attempt {} was to be forgotten twice", ticket.attempt).into());
                    }
                    answers.forgotten += 1;
                }
                ServerMessage::Ping { n } => answers.messages.push(WorkerMessage::Pong { n }),
                ServerMessage::LogAck { .. } | ServerMessage::Pong { .. } => {}
                other => return Err(format!("a simulated worker does not expect {other:?}").into()),
            }
        }
        Ok(answers)
    }

    /// Control goes before logs.
    async fn send(&mut self, answers: Answers) -> Outcome<()> {
        if !answers.messages.is_empty() {
            self.socket.feed(Message::text(encode_text(&answers.messages))).await?;
        }
        for header in &answers.logs {
            self.socket.feed(Message::binary(encode_log(header, &[]))).await?;
        }
        Ok(self.socket.flush().await?)
    }

    fn beat(&self) -> WorkerMessage {
        let busy = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        WorkerMessage::Heartbeat(Heartbeat {
            processed: self.processed,
            held: self.held.iter().copied().collect(),
            free: self.slots.saturating_sub(busy),
            ahead: 0,
            draining: false,
            runners: Vec::new(),
        })
    }
}

/// Several workers that do all there is.
#[derive(Debug)]
pub(crate) struct Crew {
    workers: JoinSet<Outcome<()>>,
    forgotten: UnboundedReceiver<usize>,
}

impl Crew {
    /// So many workers, spread over the servers.
    pub(crate) async fn connect(servers: &[&Server<'_>], workers: usize, slots: u32) -> Outcome<Crew> {
        let (tell, forgotten) = unbounded_channel();
        let mut crew = Crew { workers: JoinSet::new(), forgotten };
        for (n, server) in (0..workers).zip(servers.iter().cycle()) {
            let worker = SimulatedWorker::connect(server, &format!("simulated-{n}"), slots).await?;
            crew.workers.spawn(worker.work(tell.clone()));
        }
        Ok(crew)
    }

    /// Waits until the server has told them to forget so many attempts: it has their ends and their logs by then.
    pub(crate) async fn ended(&mut self, goal: usize) -> Outcome<()> {
        let count = self.ended_at_least(goal).await?;
        if count == goal { Ok(()) } else { Err(format!("{count} lives ended and not {goal}").into()) }
    }

    /// The same while there is more to do. How many it were in the end.
    pub(crate) async fn ended_at_least(&mut self, goal: usize) -> Outcome<usize> {
        let mut count = 0;
        while count < goal {
            let news = tokio::select! {
                news = timeout(SILENCE_MAX, self.forgotten.recv()) => news,
                Some(worker) = self.workers.join_next() => {
                    worker??;
                    return Err("a simulated worker ended".into());
                }
            };
            let silence = |_| format!("{count} of {goal} lives ended, and none for {} s", SILENCE_MAX.as_secs());
            count += news.map_err(silence)?.ok_or("all simulated workers ended")?;
        }
        Ok(count)
    }

    /// Waits until nothing ends any more: nothing new is handed out, and what was is done.
    pub(crate) async fn come_to_rest(&mut self) {
        while let Ok(Some(_)) = timeout(REST, self.forgotten.recv()).await {}
    }

    pub(crate) async fn leave(mut self) {
        self.workers.shutdown().await;
    }
}

/// A link without its hello.
pub(crate) async fn open(address: &str, credential: &str) -> Outcome<Socket> {
    let mut request = format!("ws://{address}{LINK_PATH}").into_client_request()?;
    request.headers_mut().insert(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {credential}"))?);
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER_BYTES);
    Ok(client_async_with_config(request, stream, Some(config)).await?.0)
}

/// Says hello and waits for the welcome.
pub(crate) async fn greet(socket: &mut Socket, hello: Hello) -> Outcome<Welcome> {
    socket.send(Message::text(encode_text(&[WorkerMessage::Hello(hello)]))).await?;
    welcome(socket).await
}

/// Changes a token into a credential.
pub(crate) async fn enroll(address: &str, token: &str, name: &str, state_id: Uuid) -> Outcome<String> {
    let request = EnrollRequest { name: name.to_owned(), state_id, labels: Default::default() };
    let body = serde_json::to_string(&request)?;
    let head = format!(
        "POST {ENROLL_PATH} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all((head + &body).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => {
            Ok(serde_json::from_str::<EnrollResponse>(body)?.credential)
        }
        _ => Err(format!("a simulated worker could not enrol: {answer}").into()),
    }
}

async fn welcome(socket: &mut Socket) -> Outcome<Welcome> {
    match socket.next().await.transpose()? {
        Some(Message::Text(text)) => match decode_text(&text)?.into_iter().next() {
            Some(ServerMessage::Welcome(welcome)) => Ok(welcome),
            other => Err(format!("the server answered a hello with {other:?}").into()),
        },
        other => Err(format!("the server answered a hello with {other:?}").into()),
    }
}

pub(crate) fn hello(name: &str, slots: u32, state_id: Uuid) -> Outcome<Hello> {
    Ok(Hello {
        protocol: PROTOCOL_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: "simulated".to_owned(),
        hostname: "localhost".to_owned(),
        pid: std::process::id(),
        name: name.to_owned(),
        tags: vec!["script".to_owned()],
        slots,
        session: random_id()?,
        boot_id: random_id()?.to_string(),
        state_id,
        machine: "simulated".to_owned(),
        started_at_ms: 0,
        last_epoch: 0,
        ephemeral: false,
        no_reconnect: false,
        caretaker: false,
        processed: 0,
        scan_complete: true,
        offline_ms: 0,
        held: Vec::new(),
        kept: None,
        features: Vec::new(),
    })
}

/// Stands for the whole log of a step that printed nothing.
pub(crate) fn whole_and_empty(ticket: Ticket) -> LogHeader {
    LogHeader { ticket, first_seq: 1, last_seq: 0, missing: 0, cause: MissingCause::Limit, complete: true }
}

pub(crate) fn end() -> End {
    End {
        result: EndResult::Exited { code: 0 },
        stopped: None,
        log_last_seq: 0,
        output: Default::default(),
        output_error: None,
        cleanup: None,
        duration_ms: 0,
        cpu_ms: 0,
        memory_bytes_max: 0,
        artifacts: None,
    }
}

pub(crate) fn random_id() -> Outcome<Uuid> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}
