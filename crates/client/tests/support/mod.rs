//! A server that follows a script: a function from each request to the bytes of its answer. Shared by the tests of
//! `client` and `cli`; only for what the real server does rarely, such as breaking off.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Method, path and query.
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Counts connections from 0.
    pub(crate) connection: usize,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What to answer, and whether to close the connection after it.
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) close: bool,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &str) -> Answer {
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        Answer { bytes: [head.as_bytes(), body.as_bytes()].concat(), close: false }
    }

    /// An event stream that breaks off after `body`.
    pub(crate) fn events(body: &str) -> Answer {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = format!("{:x}\r\n{body}\r\n", body.len());
        Answer { bytes: [head.as_bytes(), chunk.as_bytes()].concat(), close: true }
    }

    pub(crate) fn nothing() -> Answer {
        Answer { bytes: Vec::new(), close: true }
    }

    pub(crate) fn closing(self, close: bool) -> Answer {
        Answer { close, ..self }
    }
}

pub(crate) struct Scripted {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Scripted {
    pub(crate) async fn start(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(script);
        let seen = requests.clone();
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                tokio::spawn(serve(stream, connection, script.clone(), seen.clone()));
            }
        });
        Scripted { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no test panics inside").clone()
    }
}

async fn serve<F>(mut stream: TcpStream, connection: usize, script: Arc<F>, seen: Arc<Mutex<Vec<Request>>>)
where
    F: Fn(&Request) -> Answer,
{
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer, connection).await {
        seen.lock().expect("no test panics inside").push(request.clone());
        let answer = script(&request);
        if stream.write_all(&answer.bytes).await.is_err() || answer.close {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> Option<Request> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).ok()?;
    let mut lines = head.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(key, _)| key == "content-length").map_or(0, |(_, v)| v.parse().unwrap_or(0));
    while buffer.len() < head_end + 4 + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(buffer[head_end + 4..head_end + 4 + length].to_vec()).ok()?;
    buffer.drain(..head_end + 4 + length);
    Some(Request { line, headers, body, connection })
}
