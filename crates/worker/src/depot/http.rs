//! One request to a server about one set of files, as this worker.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, RANGE};
use http::{Method, Request, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Response, body::Body as _};
use hyper_util::rt::TokioIo;
use protocol::artifacts::{ARTIFACTS_PATH, Have};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::link::Reach;
use crate::link::address::Address;
use crate::link::connect::connect_tcp;

use super::{Carrier, Setback};

/// An answer that tells how much is there, or what is wrong.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The last piece of a large set is verified and synced before it is answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// Between two pieces of an answer.
const PIECE_TIMEOUT: Duration = Duration::from_secs(60);

type Outgoing = BoxBody<Bytes, std::io::Error>;

/// What a server said to a question about a set.
#[derive(Debug)]
pub(super) enum Answer {
    Have(Have),
    /// It knows nothing of it, or threw away what it had.
    NotThere,
}

/// `POST` with a manifest, or without one.
pub(super) async fn announce(reach: &Reach, set: &str, manifest: Vec<u8>) -> Result<Answer, Setback> {
    let body = Full::new(Bytes::from(manifest)).map_err(|never| match never {}).boxed();
    ask(reach, Method::POST, &format!("{ARTIFACTS_PATH}{set}"), None, body).await
}

/// `PUT`: so many bytes from the `from`th on, as they come out of the channel.
pub(super) async fn put(
    reach: &Reach,
    set: &str,
    from: u64,
    length: u64,
    pieces: mpsc::Receiver<std::io::Result<Bytes>>,
) -> Result<Answer, Setback> {
    let pieces = stream::unfold(pieces, async |mut pieces| pieces.recv().await.map(|piece| (piece, pieces)));
    let body = BodyExt::boxed(StreamBody::new(pieces.map(|piece| piece.map(Frame::data))));
    ask(reach, Method::PUT, &format!("{ARTIFACTS_PATH}{set}?from={from}"), Some(length), body).await
}

async fn ask(
    reach: &Reach,
    method: Method,
    path: &str,
    length: Option<u64>,
    body: Outgoing,
) -> Result<Answer, Setback> {
    let build = |address: &Address| {
        let mut request = request(reach, address, method.clone(), path);
        if let Some(length) = length {
            request = request.header(CONTENT_LENGTH, length);
        }
        request
    };
    let response = timeout(ANSWER_TIMEOUT, send(reach, build, body)).await;
    let response = response.map_err(|_| Setback::Passing("the server does not answer".to_owned()))??;
    let (status, text) = (response.status(), read_text(response).await?);
    if status.is_success() {
        let have = serde_json::from_slice(&text);
        return have.map(Answer::Have).map_err(|error| Setback::Passing(format!("an answer that is none: {error}")));
    }
    match status {
        StatusCode::NOT_FOUND => Ok(Answer::NotThere),
        status => Err(setback(status, &text)),
    }
}

/// What became of a download.
#[derive(Debug)]
pub(super) enum Download {
    Whole,
    /// The server knows nothing of it.
    NotThere,
}

/// `GET` into a file that may have the beginning already. `before`: bytes that other sets brought.
pub(super) async fn download(carrier: &Carrier, set: &str, file: &Path, before: u64) -> Result<Download, Setback> {
    let reach = &*carrier.reach;
    let failed = |error: std::io::Error| Setback::Passing(format!("cannot write {}: {error}", file.display()));
    let mut options = tokio::fs::OpenOptions::new();
    let mut output = options.append(true).create(true).open(file).await.map_err(failed)?;
    let have = output.metadata().await.map_err(failed)?.len();
    let path = format!("{ARTIFACTS_PATH}{set}");
    let build = |address: &Address| {
        let request = request(reach, address, Method::GET, &path);
        if have > 0 { request.header(RANGE, format!("bytes={have}-")) } else { request }
    };
    let empty = Full::new(Bytes::new()).map_err(|never| match never {}).boxed();
    let response = timeout(ANSWER_TIMEOUT, send(reach, build, empty)).await;
    let response = response.map_err(|_| Setback::Passing("the server does not answer".to_owned()))??;
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {}
        StatusCode::OK if have == 0 => {}
        // From there on there is nothing: it is whole, or it is another one.
        StatusCode::RANGE_NOT_SATISFIABLE => return Ok(Download::Whole),
        StatusCode::OK => {
            tokio::fs::remove_file(file).await.map_err(failed)?;
            return Err(Setback::Anew("the server sends it from its beginning".to_owned()));
        }
        StatusCode::NOT_FOUND => return Ok(Download::NotThere),
        status => return Err(setback(status, &read_text(response).await?)),
    }
    let (mut body, mut place) = (response.into_body(), before + have);
    while !body.is_end_stream() {
        let frame = timeout(PIECE_TIMEOUT, body.frame()).await;
        let frame = frame.map_err(|_| Setback::Passing("the server stopped sending".to_owned()))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Setback::Passing(format!("the connection broke: {error}")))?;
        if let Ok(data) = frame.into_data() {
            output.write_all(&data).await.map_err(failed)?;
            // Until then it is only in memory, and a full disk has not been noticed.
            output.flush().await.map_err(failed)?;
            place += data.len() as u64;
            carrier.news.reached(place);
        }
    }
    Ok(Download::Whole)
}

fn request(reach: &Reach, address: &Address, method: Method, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(address.path(path))
        .header(HOST, address.authority())
        .header(AUTHORIZATION, format!("Bearer {}", reach.credential))
}

/// To the first server that can be reached.
async fn send(
    reach: &Reach,
    build: impl Fn(&Address) -> http::request::Builder,
    body: Outgoing,
) -> Result<Response<Incoming>, Setback> {
    let mut unreachable = String::new();
    for address in &reach.servers {
        let stream = match connect_tcp(address).await {
            Ok(stream) => stream,
            Err(error) => {
                unreachable = error.to_string();
                continue;
            }
        };
        let request = build(address).body(body).map_err(|error| Setback::ForGood(error.to_string()))?;
        let failed = |error: hyper::Error| Setback::Passing(format!("the request to {address} failed: {error}"));
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // It lives as long as the answer is read, and ends with it.
        tokio::spawn(connection);
        return sender.send_request(request).await.map_err(failed);
    }
    Err(Setback::Passing(unreachable))
}

async fn read_text(response: Response<Incoming>) -> Result<Bytes, Setback> {
    let body = timeout(PIECE_TIMEOUT, Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect()).await;
    let body = body.map_err(|_| Setback::Passing("the answer does not come".to_owned()))?;
    body.map(|body| body.to_bytes()).map_err(|error| Setback::Passing(format!("the answer broke off: {error}")))
}

/// What the server does not want now it may want later; what it never wants, it says so.
fn setback(status: StatusCode, text: &[u8]) -> Setback {
    let json: Option<serde_json::Value> = serde_json::from_slice(text).ok();
    let said = json.as_ref().and_then(|json| json.pointer("/error/message")?.as_str());
    let message = said.map_or_else(|| format!("the server answered with status {status}"), str::to_owned);
    let passing = status.is_server_error()
        || matches!(status, StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
        || status == StatusCode::UNAUTHORIZED;
    if passing { Setback::Passing(message) } else { Setback::ForGood(message) }
}
