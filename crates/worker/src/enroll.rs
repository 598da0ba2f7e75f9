//! Becoming a worker: a single-use token is exchanged for a credential.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use protocol::link::{EnrollRequest, EnrollResponse};
use thiserror::Error;
use tokio::time::timeout;

use crate::link::address::Address;
use crate::link::connect::{ConnectError, connect_tcp};

const ENROLL_PATH: &str = "/api/worker/enroll";
/// The server commits before it answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// An answer is a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, Error)]
pub(crate) enum EnrollError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the enroll request failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("the token cannot be sent: {0}")]
    Token(#[from] http::Error),
    #[error("no answer to the enroll request within {}s", ANSWER_TIMEOUT.as_secs())]
    Silent,
    #[error("the server refused: {message}")]
    Refused { message: String },
    #[error("the server answered with status {status}: {message}")]
    Status { status: StatusCode, message: String },
    #[error("the answer to the enroll request cannot be understood: {why}")]
    BadAnswer { why: String },
}

/// Asks one server.
pub(crate) async fn enroll(
    address: &Address,
    token: &str,
    request: &EnrollRequest,
) -> Result<EnrollResponse, EnrollError> {
    timeout(ANSWER_TIMEOUT, ask(address, token, request)).await.map_err(|_| EnrollError::Silent)?
}

async fn ask(address: &Address, token: &str, request: &EnrollRequest) -> Result<EnrollResponse, EnrollError> {
    let json = serde_json::to_vec(request).expect("the request is plain data and always has a JSON form");
    let request = Request::post(address.path(ENROLL_PATH))
        .header(HOST, address.authority())
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::<bytes::Bytes>::from(json))?;
    let stream = connect_tcp(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| EnrollError::BadAnswer { why: error.to_string() })?;
        interpret(status, &body.to_bytes())
    };
    tokio::pin!(exchange, connection);
    tokio::select! {
        answer = &mut exchange => answer,
        // The connection may end when the answer has been received and not yet been read.
        ended = &mut connection => {
            ended?;
            exchange.await
        }
    }
}

fn interpret(status: StatusCode, body: &[u8]) -> Result<EnrollResponse, EnrollError> {
    if status.is_success() {
        return serde_json::from_slice(body).map_err(|error| EnrollError::BadAnswer { why: error.to_string() });
    }
    let message = error_message(body).unwrap_or_else(|| status.to_string());
    // Anything else may pass: a server that starts up, a proxy without one behind it.
    if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT && status != StatusCode::TOO_MANY_REQUESTS {
        Err(EnrollError::Refused { message })
    } else {
        Err(EnrollError::Status { status, message })
    }
}

/// From `{"error":{"message":…}}`.
fn error_message(body: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(body).ok()?;
    json.get("error")?.get("message")?.as_str().map(str::to_owned)
}
