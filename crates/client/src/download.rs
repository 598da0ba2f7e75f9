//! A file on its way: its bytes piece by piece, and on again from where it was when the connection broke.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use crate::client::Client;
use crate::connection::Connection;
use crate::error::Error;

/// Between two pieces.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How often in a row it is asked for again without a single byte in between.
const TRIES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// One file that a step left, or all of them in a row.
#[derive(Debug)]
pub struct Download {
    client: Client,
    path: String,
    /// Bytes that were handed out.
    at: u64,
    bytes: u64,
    tries: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    body: Incoming,
    connection: Connection,
}

impl Download {
    pub(crate) fn new(client: Client, path: String, bytes: u64) -> Download {
        Download { client, path, at: 0, bytes, tries: 0, open: None }
    }

    /// The next piece; none after the last. An error is final.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if self.at >= self.bytes {
                // Read to its end, the connection is good for the next file.
                if let Some(Open { mut body, connection }) = self.open.take()
                    && body.frame().await.is_none()
                {
                    self.client.give_back(connection);
                }
                return Ok(None);
            }
            match self.piece().await {
                Ok(Some(piece)) => {
                    self.at += piece.len() as u64;
                    self.tries = 0;
                    return Ok(Some(piece));
                }
                Ok(None) => self.open = None,
                Err(error) if error.is_passing() && self.tries < TRIES_MAX => self.open = None,
                Err(error) => return Err(error),
            }
            self.tries += 1;
            if self.tries > TRIES_MAX {
                return Err(self.client.bad_answer(format!("it ends after {} of {} bytes", self.at, self.bytes)));
            }
            sleep(PAUSE).await;
        }
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        if self.open.is_none() {
            let answer = self.client.open_file(&self.path, self.at).await?;
            if self.at > 0 && answer.response.status() != StatusCode::PARTIAL_CONTENT {
                return Err(self.client.bad_answer("it does not go on from where it was".to_owned()));
            }
            self.open = Some(Open { body: answer.response.into_body(), connection: answer.connection });
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        loop {
            let frame = timeout(SILENCE_MAX, open.body.frame()).await.map_err(|_| self.client.silent(SILENCE_MAX))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(self.client.broken(&error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}
