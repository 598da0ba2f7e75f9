//! A small HTTP client that shows everything: what is sent is what the test wrote.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Nothing in these tests takes longer unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    /// Checks status and code, and that the error has its documented shape.
    pub(crate) fn is_error(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        let body = self.json();
        let error = &body["error"];
        assert_eq!(error["code"], code, "{}", self.body);
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{}", self.body);
        assert!(error.get("hint").is_some(), "{}", self.body);
        error.clone()
    }

    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        if self.body.is_empty() { Value::Null } else { self.json() }
    }
}

pub(crate) struct Request {
    pub(crate) address: SocketAddr,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(address: SocketAddr, method: &str, path: &str) -> Request {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: bowline\r\nconnection: close\r\n");
        Request { address, head, body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Request {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn token(self, token: &str) -> Request {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(self, body: &Value) -> Request {
        self.body(body.to_string().into_bytes())
    }

    pub(crate) fn body(mut self, body: Vec<u8>) -> Request {
        self.head.push_str(&format!("content-length: {}\r\n", body.len()));
        self.body = body;
        self
    }

    pub(crate) async fn send(self) -> Answer {
        let work = async {
            let mut stream = TcpStream::connect(self.address).await.expect("the server listens");
            let whole = [self.head.as_bytes(), b"\r\n", &self.body].concat();
            // A server that refuses may hang up before all is sent; its answer is there all the same.
            let _ = stream.write_all(&whole).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            read_answer(&answer)
        };
        tokio::time::timeout(PATIENCE, work).await.expect("an answer in time")
    }

    /// Only the status: the body may never end.
    pub(crate) async fn status(self) -> u16 {
        self.open().await.0
    }

    /// Opens a live stream.
    pub(crate) async fn stream(self) -> Messages {
        let (status, lines) = self.open().await;
        assert_eq!(status, 200);
        Messages { lines }
    }

    /// Sends, and reads the head. Asked for with HTTP/1.0, so that the body comes without chunks.
    async fn open(self) -> (u16, BufReader<TcpStream>) {
        let work = async {
            let head = self.head.replacen("HTTP/1.1", "HTTP/1.0", 1);
            let mut stream = TcpStream::connect(self.address).await.expect("the server listens");
            stream.write_all(format!("{head}\r\n").as_bytes()).await.expect("the request goes out");
            let mut lines = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(lines.read_line(&mut head).await.expect("a head") > 0, "cut off: {head}");
            }
            (read_answer(head.as_bytes()).status, lines)
        };
        tokio::time::timeout(PATIENCE, work).await.expect("a head in time")
    }
}

pub(crate) fn read_answer(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// A live stream's messages.
pub(crate) struct Messages {
    lines: BufReader<TcpStream>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) id: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) data: Value,
}

impl Messages {
    /// None when the server ended the stream.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        tokio::time::timeout(PATIENCE, self.read()).await.expect("a message in time")
    }

    pub(crate) async fn expect(&mut self) -> Message {
        self.next().await.expect("the stream goes on")
    }

    pub(crate) async fn rest(mut self) -> Vec<Message> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }

    async fn read(&mut self) -> Option<Message> {
        let mut message = Message { id: None, event: None, data: Value::Null };
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line).await.expect("a line") == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => message.id = Some(id.to_owned()),
                Some(("event", name)) => message.event = Some(name.to_owned()),
                Some(("data", data)) => message.data = serde_json::from_str(data).expect("JSON"),
                // An empty line ends a message; comments stand alone.
                _ if line.trim().is_empty() && message.data != Value::Null => return Some(message),
                _ => {}
            }
        }
    }
}
