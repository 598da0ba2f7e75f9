//! HTTP/1.1 connections to one server, kept and used again. `client` and `stream` send through here.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::endpoint::Endpoint;
use crate::error::{Error, with_sources};

/// A server that is there takes a connection in milliseconds; a packet lost on the way costs a second or three.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that wait for the next request. A program rarely has more calls under way at once.
const IDLE_MAX: usize = 4;

/// Answers have a dozen headers; a hundred times that is not a Bowline server.
const HEADER_BYTES_MAX: usize = 64 * 1024;

type Sender = SendRequest<Full<Bytes>>;

#[derive(Debug)]
pub(crate) struct Connections {
    endpoint: Endpoint,
    idle: Mutex<Vec<Sender>>,
}

/// An answer's head, and its connection to give back once the body was read.
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    pub(crate) connection: Connection,
}

#[derive(Debug)]
pub(crate) struct Connection(Sender);

impl Connections {
    pub(crate) fn new(endpoint: Endpoint) -> Connections {
        Connections { endpoint, idle: Mutex::new(Vec::new()) }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request and waits, at most `patience`, for the head of the answer.
    ///
    /// A kept connection may have been closed by the server just now: a request that it did not take, or that is
    /// safe to repeat, goes out again on another one.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>, patience: Duration) -> Result<Answer, Error> {
        let mut request = request;
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_err() {
                continue;
            }
            let spare = request.method().is_idempotent().then(|| request.clone());
            match timeout(patience, sender.try_send_request(request)).await {
                Err(_) => return Err(self.silent(patience)),
                Ok(Ok(response)) => {
                    return Ok(Answer { response, connection: Connection(sender) });
                }
                Ok(Err(mut refused)) => match refused.take_message().or(spare) {
                    Some(unsent) => request = unsent,
                    None => return Err(self.broken(&refused.into_error())),
                },
            }
        }
        let mut sender = self.connect().await?;
        match timeout(patience, sender.send_request(request)).await {
            Err(_) => Err(self.silent(patience)),
            Ok(Err(error)) => Err(self.broken(&error)),
            Ok(Ok(response)) => Ok(Answer { response, connection: Connection(sender) }),
        }
    }

    /// Keeps a connection whose answer was read to its end.
    pub(crate) fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().expect("nobody panics while holding it");
        if idle.len() < IDLE_MAX && !connection.0.is_closed() {
            idle.push(connection.0);
        }
    }

    pub(crate) fn broken(&self, error: &hyper::Error) -> Error {
        Error::Broken { server: self.endpoint.to_string(), reason: with_sources(error) }
    }

    pub(crate) fn silent(&self, patience: Duration) -> Error {
        let reason = format!("no answer within {} s", patience.as_secs());
        Error::Broken { server: self.endpoint.to_string(), reason }
    }

    fn take_idle(&self) -> Option<Sender> {
        self.idle.lock().expect("nobody panics while holding it").pop()
    }

    async fn connect(&self) -> Result<Sender, Error> {
        let unreachable = |source| Error::Unreachable { server: self.endpoint.to_string(), source };
        let address = (self.endpoint.host(), self.endpoint.port());
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
            .await
            .map_err(|_| unreachable(io::ErrorKind::TimedOut.into()))?
            .map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEADER_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.broken(&error))?;
        // Whatever ends the connection also ends the request on it, which is where the error is told.
        tokio::spawn(connection);
        Ok(sender)
    }
}
