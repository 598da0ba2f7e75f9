//! The scripted server, and workers to put in front of it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use protocol::attempt::{AttemptSpec, Effects, End, Program, SPEC_FORMAT, StopPlan, Ticket};
use protocol::link::{
    Hello, LinkSettings, LogHeader, PROTOCOL_VERSION, ServerMessage, Verdict, Welcome, WorkerMessage, decode_log,
    decode_text, encode_text,
};
use protocol::log::Blocks;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use uuid::Uuid;
use worker::{RunnerCommand, Spool, StopLevel, WorkerError, WorkerOptions};

/// Whatever takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const CREDENTIAL: &str = "credential-of-this-worker";

/// A place for a worker to live in, with its server.
pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    listener: TcpListener,
}

impl Stage {
    /// The worker is enrolled already.
    pub(crate) async fn new() -> Self {
        let stage = Stage::bare().await;
        std::fs::create_dir(stage.state()).expect("writable");
        std::fs::write(stage.state().join("credential"), CREDENTIAL).expect("writable");
        stage
    }

    pub(crate) async fn bare() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Stage { folder, listener }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn attempt(&self, id: u64) -> PathBuf {
        self.state().join("attempts").join(ticket(id).attempt.to_string())
    }

    pub(crate) fn options(&self) -> WorkerOptions {
        let address = self.listener.local_addr().expect("bound");
        WorkerOptions {
            servers: vec![format!("http://{address}")],
            name: "tester".to_owned(),
            tags: vec!["script".to_owned()],
            slots: 4,
            state: self.state(),
            enroll_token: None,
            no_reconnect: false,
            ephemeral: false,
            once: false,
            stop_steps: false,
            caretaker: false,
            caretaker_command: None,
            stop_grace: Duration::from_secs(600),
            spool: Spool::default(),
            runner: RunnerCommand { program: runner_program(), arguments: Vec::new() },
            version: "test".to_owned(),
        }
    }

    pub(crate) fn start(&self) -> Worker {
        Worker::start(self.options())
    }

    /// The next TCP connection, whatever it wants.
    pub(crate) async fn connection(&self) -> TcpStream {
        let accepted = timeout(PATIENCE, self.listener.accept()).await.expect("the worker connects in time");
        accepted.expect("acceptable").0
    }

    /// The next link; the worker must show its credential.
    pub(crate) async fn link(&self) -> Peer {
        let stream = self.connection().await;
        #[expect(clippy::result_large_err, reason = "the signature is the library's")]
        let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            let bearer = request.headers().get("authorization").and_then(|value| value.to_str().ok());
            assert_eq!(bearer, Some(format!("Bearer {CREDENTIAL}").as_str()));
            assert_eq!(request.uri().path(), protocol::link::LINK_PATH);
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(stream, check).await.expect("a good handshake");
        Peer { socket, messages: VecDeque::new(), lines: Vec::new(), complete: None, numbers: 0, acknowledges: true }
    }

    /// A link that is past its welcome.
    pub(crate) async fn welcomed(&self) -> Peer {
        let mut peer = self.link().await;
        peer.hello().await;
        peer.welcome(Vec::new()).await;
        peer
    }

    /// Answers one plain HTTP request and returns it.
    pub(crate) async fn answer(&self, status: &str, body: &str) -> String {
        let mut stream = self.connection().await;
        let mut request = Vec::new();
        while !is_whole(&request) {
            assert!(stream.read_buf(&mut request).await.expect("readable") > 0, "the request ends early");
        }
        let length = body.len();
        let response =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(response.as_bytes()).await.expect("writable");
        String::from_utf8(request).expect("text")
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap_or(0));
    body.len() >= length
}

/// The server's end of a link.
pub(crate) struct Peer {
    socket: WebSocketStream<TcpStream>,
    messages: VecDeque<WorkerMessage>,
    /// Number and text of every line received on this link, in order.
    pub(crate) lines: Vec<(u64, String)>,
    /// The header of the frame that completed a log.
    pub(crate) complete: Option<LogHeader>,
    numbers: u64,
    pub(crate) acknowledges: bool,
}

impl Peer {
    pub(crate) async fn send(&mut self, messages: &[ServerMessage]) {
        self.socket.send(Message::text(encode_text(messages))).await.expect("the worker listens");
    }

    /// The next number for an offer, go or forget.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The next message that `wanted` knows; others are passed over, pings answered, logs gathered.
    pub(crate) async fn expect<T>(&mut self, what: &str, wanted: impl Fn(WorkerMessage) -> Option<T>) -> T {
        let search = async {
            loop {
                while let Some(message) = self.messages.pop_front() {
                    if let Some(found) = wanted(message) {
                        return found;
                    }
                }
                self.receive().await;
            }
        };
        match timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_) => panic!("the worker did not say `{what}` in time"),
        }
    }

    /// Gathers frames until `done`.
    pub(crate) async fn until(&mut self, what: &str, done: impl Fn(&Peer) -> bool) {
        let gather = async {
            while !done(self) {
                self.receive().await;
            }
        };
        assert!(timeout(PATIENCE, gather).await.is_ok(), "`{what}` did not come in time");
    }

    async fn receive(&mut self) {
        let frame = self.socket.next().await.expect("the worker keeps the link").expect("a good frame");
        match frame {
            Message::Text(text) => {
                for message in decode_text::<WorkerMessage>(&text).expect("good messages") {
                    match message {
                        WorkerMessage::Ping { n } => self.send(&[ServerMessage::Pong { n }]).await,
                        other => self.messages.push_back(other),
                    }
                }
            }
            Message::Binary(frame) => self.take_log(&frame).await,
            Message::Close(_) => panic!("the worker closed the link"),
            _ => {}
        }
    }

    async fn take_log(&mut self, frame: &[u8]) {
        let (header, blocks) = decode_log(frame).expect("a good frame");
        for block in Blocks::new(blocks) {
            for line in block.expect("a good block").lines() {
                self.lines.push((line.seq, String::from_utf8_lossy(line.bytes).into_owned()));
            }
        }
        if header.complete {
            self.complete = Some(header);
        }
        if self.acknowledges {
            self.send(&[ServerMessage::LogAck { ticket: header.ticket, seq: header.last_seq, dropped: false }]).await;
        }
    }

    /// The worker has closed the link; whatever it said before is kept.
    pub(crate) async fn closed(&mut self) -> Vec<WorkerMessage> {
        let drain = async {
            while let Some(Ok(frame)) = self.socket.next().await {
                if let Message::Text(text) = frame {
                    self.messages.extend(decode_text::<WorkerMessage>(&text).expect("good messages"));
                }
            }
        };
        timeout(PATIENCE, drain).await.expect("the worker leaves in time");
        self.messages.drain(..).collect()
    }

    pub(crate) async fn hello(&mut self) -> Hello {
        self.expect("hello", |message| match message {
            WorkerMessage::Hello(hello) => Some(hello),
            _ => None,
        })
        .await
    }

    pub(crate) async fn welcome(&mut self, verdicts: Vec<Verdict>) {
        let settings = LinkSettings {
            heartbeat_ms: 30_000,
            ping_ms: 10_000,
            max_reconnect_delay_ms: 1000,
            dispatch_ack_ms: 10_000,
            runner_heartbeat_ms: 30_000,
            caretaker_after_ms: None,
        };
        let welcome = Welcome {
            protocol: PROTOCOL_VERSION,
            server_version: "test".to_owned(),
            worker: Uuid::nil(),
            epoch: 1,
            settings,
            verdicts,
        };
        self.send(&[ServerMessage::Welcome(welcome)]).await;
    }

    pub(crate) async fn offer(&mut self, spec: AttemptSpec) {
        let number = self.number();
        self.send(&[ServerMessage::Offer { number, spec: Box::new(spec) }]).await;
    }

    pub(crate) async fn accepted(&mut self, id: u64) {
        self.expect("accept", |message| (message == WorkerMessage::Accept { ticket: ticket(id) }).then_some(())).await;
    }

    pub(crate) async fn go(&mut self, id: u64) {
        let number = self.number();
        self.send(&[ServerMessage::Go { number, ticket: ticket(id) }]).await;
    }

    pub(crate) async fn started(&mut self, id: u64) -> u32 {
        self.expect("started", |message| match message {
            WorkerMessage::Started { ticket: about, pid } if about == ticket(id) => Some(pid),
            _ => None,
        })
        .await
    }

    /// From offer to a running child.
    pub(crate) async fn run(&mut self, spec: AttemptSpec) -> u32 {
        let id = spec.ticket.fence;
        self.offer(spec).await;
        self.accepted(id).await;
        self.go(id).await;
        self.started(id).await
    }

    pub(crate) async fn ended(&mut self, id: u64) -> End {
        self.expect("ended", |message| match message {
            WorkerMessage::Ended { ticket: about, end } if about == ticket(id) => Some(end),
            _ => None,
        })
        .await
    }

    pub(crate) async fn forget(&mut self, id: u64) {
        let number = self.number();
        self.send(&[ServerMessage::Forget { number, ticket: ticket(id) }]).await;
    }
}

/// A worker in this process. Dropping it is like killing it.
pub(crate) struct Worker {
    stop: watch::Sender<StopLevel>,
    task: JoinHandle<Result<(), WorkerError>>,
}

impl Worker {
    pub(crate) fn start(options: WorkerOptions) -> Self {
        let (stop, stopped) = watch::channel(StopLevel::Run);
        Worker { stop, task: tokio::spawn(worker::run(options, stopped)) }
    }

    pub(crate) fn stop(&self, level: StopLevel) {
        self.stop.send_replace(level);
    }

    pub(crate) async fn result(self) -> Result<(), WorkerError> {
        timeout(PATIENCE, self.task).await.expect("the worker ends in time").expect("no panic")
    }

    /// Without a word to anybody. Returns when nothing of it is left, so that the state folder is free.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Attempt ids are unique on a machine, as cgroups are named by them; so they differ between tests that run at once.
pub(crate) fn ticket(id: u64) -> Ticket {
    let test = u128::from(std::process::id()) << 64;
    Ticket { attempt: Uuid::from_u128(test | u128::from(id)), fence: id }
}

pub(crate) fn script(id: u64, text: &str) -> AttemptSpec {
    let shell = vec!["sh".to_owned(), "-e".to_owned()];
    spec(id, Program::Script { shell, text: text.to_owned() })
}

pub(crate) fn command(id: u64, program: &str) -> AttemptSpec {
    spec(id, Program::Command { argv: vec![program.to_owned()] })
}

fn spec(id: u64, program: Program) -> AttemptSpec {
    AttemptSpec {
        format: SPEC_FORMAT,
        ticket: ticket(id),
        job: Uuid::nil(),
        task: "task".to_owned(),
        step: "step".to_owned(),
        number: 1,
        program,
        env: Default::default(),
        workdir: None,
        timeout_ms: None,
        effects: Effects::Writes,
        on_disconnect: Default::default(),
        lease_ms: None,
        stop: StopPlan::default(),
        cleanup: None,
        secrets: Vec::new(),
        artifacts: None,
        fetch: Vec::new(),
    }
}

/// A step that counts until a file appears; not for ever, since it outlives a test that fails.
pub(crate) fn counting(id: u64, until: &Path) -> AttemptSpec {
    let until = until.display();
    script(
        id,
        &format!("i=0; while [ ! -e {until} ] && [ $i -lt 5000 ]; do i=$((i+1)); echo $i; sleep 0.01; done; exit 7"),
    )
}

/// Waits for something that leaves no event behind.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(PATIENCE, wait).await.is_ok(), "{what}");
}

/// From `/proc/PID/stat`; `None` if it is gone or a zombie.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") { None } else { fields.get(1)?.parse().ok() }
}

pub(crate) fn kill(pid: u32) {
    signal(pid, rustix::process::Signal::KILL);
}

pub(crate) fn freeze(pid: u32) {
    signal(pid, rustix::process::Signal::STOP);
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process's number");
    rustix::process::kill_process(pid, signal).expect("it is ours to signal");
}

/// Cargo builds examples next to the tests.
fn runner_program() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let built = test.parent().and_then(Path::parent).expect("it lies in target/PROFILE/deps");
    let program = built.join("examples").join("worker-runner");
    assert!(program.exists(), "{} is missing: build it with `cargo build -p worker --examples`", program.display());
    program
}
