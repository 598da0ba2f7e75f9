//! A worker played by the test: enrolled over HTTP, then speaking to the ledger without a socket.

use std::collections::BTreeMap;

use engine::WorkerId;
use protocol::attempt::{ArtifactSet, Artifacts, AttemptSpec, End, EndResult};
use protocol::link::{
    HeldAttempt, HeldState, Hello, LogHeader, MissingCause, PROTOCOL_VERSION, ServerMessage, WorkerMessage,
};
use protocol::log::{BlockEncoder, LineEnd, Stream};
use serde_json::json;
use server::dispatch::LinkId;
use server::ledger::{Command, Ledger, LinkEvent, LinkOut, LinkSender, LogFrame};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::client::PATIENCE;
use crate::site::Site;

pub(crate) struct Hand {
    worker: WorkerId,
    ledger: Ledger,
    link: LinkId,
    /// Of its welcome.
    epoch: u64,
    queue: mpsc::Receiver<LinkOut>,
}

impl Hand {
    pub(crate) async fn join(site: &Site, name: &str, slots: u32) -> Hand {
        Hand::join_with(site, json!({ "kind": "enroll" }), hello(name, slots)).await
    }

    /// With its own tags, by a token that allows these.
    pub(crate) async fn join_tagged(site: &Site, name: &str, allowed: &[&str], claimed: &[&str]) -> Hand {
        let tags = claimed.iter().map(|&tag| tag.to_owned()).collect();
        let token = json!({ "kind": "enroll", "tags": allowed });
        Hand::join_with(site, token, Hello { tags, ..hello(name, 1) }).await
    }

    /// Of a build that can do these.
    pub(crate) async fn join_able(site: &Site, name: &str, features: &[&str]) -> Hand {
        let features = features.iter().map(|&feature| feature.to_owned()).collect();
        Hand::join_with(site, json!({ "kind": "enroll" }), Hello { features, ..hello(name, 1) }).await
    }

    async fn join_with(site: &Site, token: serde_json::Value, hello: Hello) -> Hand {
        let token = site.post("/api/tokens", &token).await.is(201);
        let enroll = site.request("POST", "/api/worker/enroll").token(token["token"].as_str().expect("a token"));
        let worker = enroll.json(&json!({ "name": hello.name, "state_id": Uuid::nil() })).send().await.is(200);
        let worker = WorkerId(worker["worker"].as_str().expect("an id").parse().expect("a uuid"));
        Hand::connect(site, worker, hello).await
    }

    async fn connect(site: &Site, worker: WorkerId, hello: Hello) -> Hand {
        let (sender, queue) = LinkSender::channel();
        let link = LinkId(site.next_link());
        let mut hand = Hand { worker, ledger: site.app.ledger.clone(), link, epoch: 0, queue };
        hand.send(LinkEvent::Hello { link, worker, hello: Box::new(hello), sender }).await;
        let ServerMessage::Welcome(welcome) = hand.message().await else { panic!("a welcome comes first") };
        hand.epoch = welcome.epoch;
        hand
    }

    /// Hangs up.
    pub(crate) async fn leave(&self) {
        self.send(LinkEvent::Closed { link: self.link }).await;
    }

    /// Comes back with one attempt that runs, and whose log has these lines.
    pub(crate) async fn come_back(self, site: &Site, spec: &AttemptSpec, lines: (u64, u64), offline_ms: u64) -> Hand {
        let held = HeldAttempt {
            ticket: spec.ticket,
            job: spec.job,
            step: spec.step.clone(),
            state: HeldState::Running,
            log_first_seq: lines.0,
            log_last_seq: lines.1,
            events: 0,
            unsure: false,
        };
        let hello = Hello { held: vec![held], offline_ms, last_epoch: self.epoch, ..hello("w", 1) };
        Hand::connect(site, self.worker, hello).await
    }

    /// Takes the next offer through to its start.
    pub(crate) async fn start(&mut self) -> AttemptSpec {
        let spec = loop {
            if let ServerMessage::Offer { spec, .. } = self.message().await {
                break spec;
            }
        };
        self.say(WorkerMessage::Accept { ticket: spec.ticket }).await;
        loop {
            if matches!(self.message().await, ServerMessage::Go { ticket, .. } if ticket == spec.ticket) {
                return *spec;
            }
        }
    }

    /// Sends lines from `first_seq` on, and waits until they are stored.
    pub(crate) async fn log(&mut self, spec: &AttemptSpec, first_seq: u64, lines: &[&str], complete: bool) {
        self.send_lines(spec, first_seq, lines, 0, complete).await;
    }

    /// The same, after so many lines that the worker does not have any more.
    pub(crate) async fn log_after_gap(&mut self, spec: &AttemptSpec, first_seq: u64, lines: &[&str], missing: u64) {
        self.send_lines(spec, first_seq, lines, missing, false).await;
    }

    async fn send_lines(&mut self, spec: &AttemptSpec, first_seq: u64, lines: &[&str], missing: u64, complete: bool) {
        let mut encoder = BlockEncoder::new(first_seq);
        for line in lines {
            encoder.push(1_000_000, Stream::Stdout, LineEnd::Newline, line.as_bytes());
        }
        let blocks = encoder.seal().map(<[u8]>::to_vec).unwrap_or_default();
        let last_seq = first_seq + lines.len() as u64 - 1;
        let header =
            LogHeader { ticket: spec.ticket, first_seq, last_seq, missing, cause: MissingCause::Limit, complete };
        self.ledger.send_log(LogFrame { link: self.link, header, blocks }).await.expect("the ledger runs");
        loop {
            if let ServerMessage::LogAck { ticket, seq, .. } = self.message().await
                && ticket == spec.ticket
                && seq >= last_seq
            {
                return;
            }
        }
    }

    pub(crate) async fn end(&mut self, spec: &AttemptSpec, code: i32) {
        self.end_after(spec, code, 0).await;
    }

    /// Ends it well, with the files that it left.
    pub(crate) async fn end_with(&mut self, spec: &AttemptSpec, set: ArtifactSet) {
        let end = End { artifacts: Some(Artifacts::Stored(set)), ..ended(0, 0) };
        self.say(WorkerMessage::Ended { ticket: spec.ticket, end }).await;
    }

    /// Ends it, and says how many lines it wrote.
    pub(crate) async fn end_after(&mut self, spec: &AttemptSpec, code: i32, log_last_seq: u64) {
        self.say(WorkerMessage::Ended { ticket: spec.ticket, end: ended(code, log_last_seq) }).await;
    }

    /// Waits until the server says that what came last was too late; what it kept of it is committed then.
    pub(crate) async fn is_told_stale(&mut self) {
        while !matches!(self.message().await, ServerMessage::StaleDispatch { .. }) {}
    }

    async fn say(&self, message: WorkerMessage) {
        self.send(LinkEvent::Messages { link: self.link, messages: vec![message] }).await;
    }

    async fn send(&self, event: LinkEvent) {
        self.ledger.send(Command::Link(event)).await.expect("the ledger runs");
    }

    async fn message(&mut self) -> ServerMessage {
        match tokio::time::timeout(PATIENCE, self.queue.recv()).await.expect("a message in time") {
            Some(LinkOut::Message(message)) => message,
            other => panic!("the link ended: {other:?}"),
        }
    }
}

fn ended(code: i32, log_last_seq: u64) -> End {
    End {
        result: EndResult::Exited { code },
        stopped: None,
        log_last_seq,
        output: BTreeMap::from([("answer".to_owned(), json!(42))]),
        output_error: None,
        cleanup: None,
        duration_ms: 1,
        cpu_ms: 5,
        memory_bytes_max: 1024,
        artifacts: None,
    }
}

fn hello(name: &str, slots: u32) -> Hello {
    Hello {
        protocol: PROTOCOL_VERSION,
        version: "test".to_owned(),
        platform: "linux".to_owned(),
        hostname: "here".to_owned(),
        pid: 1,
        name: name.to_owned(),
        tags: vec!["script".to_owned()],
        slots,
        session: Uuid::from_u128(7),
        boot_id: "boot".to_owned(),
        state_id: Uuid::nil(),
        machine: "machine".to_owned(),
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
        features: protocol::features::all(),
    }
}
