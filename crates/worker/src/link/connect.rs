//! Opening connections to a server, each with a time limit.

use std::io;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use protocol::link::{FRAME_BYTES_MAX, LINK_PATH};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Error as WsError};

use super::address::Address;
use super::search::Setback;

/// For a TCP connection, and again for the handshake on it: longer than any healthy network takes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Frames from a server are small; the default of 128 KiB would be most of an idle worker's memory.
const READ_BUFFER_BYTES: usize = 4 * 1024;
/// Frames are written at once; this only gathers the pieces of one.
const WRITE_BUFFER_BYTES: usize = 16 * 1024;

/// Somebody answers for the server, and says that it will be there.
const NOT_READY: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

pub(crate) type Socket = WebSocketStream<TcpStream>;

#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("cannot connect to {address}: {source}")]
    Tcp { address: Address, source: io::Error },
    #[error("{address} refused the credential")]
    Unauthorized { address: Address },
    #[error("{address} answered the link request with status {status}")]
    Status { address: Address, status: StatusCode },
    #[error("the handshake with {address} failed: {source}")]
    Handshake { address: Address, source: Box<WsError> },
    #[error("{address} accepted the connection but did not answer within {}s", CONNECT_TIMEOUT.as_secs())]
    Silent { address: Address },
}

impl ConnectError {
    pub(super) fn setback(&self) -> Setback {
        match self {
            ConnectError::Tcp { .. } => Setback::Unreachable,
            ConnectError::Unauthorized { .. } => Setback::Unauthorized,
            ConnectError::Status { status, .. } if NOT_READY.contains(status) => Setback::NotReady,
            ConnectError::Status { .. } | ConnectError::Handshake { .. } | ConnectError::Silent { .. } => {
                Setback::Refused
            }
        }
    }
}

pub(crate) async fn connect_tcp(address: &Address) -> Result<TcpStream, ConnectError> {
    let failed = |source| ConnectError::Tcp { address: address.clone(), source };
    let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address.target())).await {
        Ok(connected) => connected.map_err(failed)?,
        Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
    };
    // Messages are small and somebody waits for each.
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

/// Opens the link's WebSocket, with the credential as bearer token.
pub(crate) async fn connect_link(address: &Address, credential: &str) -> Result<Socket, ConnectError> {
    let handshake_failed = |source| ConnectError::Handshake { address: address.clone(), source: Box::new(source) };
    let url = format!("ws://{}{}", address.authority(), address.path(LINK_PATH));
    let mut request = url.into_client_request().map_err(handshake_failed)?;
    let bearer = HeaderValue::from_str(&format!("Bearer {credential}"))
        .map_err(|_| ConnectError::Unauthorized { address: address.clone() })?;
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let stream = connect_tcp(address).await?;
    let handshake = tokio_tungstenite::client_async_with_config(request, stream, Some(socket_config()));
    match timeout(CONNECT_TIMEOUT, handshake).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(WsError::Http(response))) => Err(explain_status(address, response.status())),
        Ok(Err(error)) => Err(handshake_failed(error)),
        Err(_) => Err(ConnectError::Silent { address: address.clone() }),
    }
}

fn explain_status(address: &Address, status: tungstenite::http::StatusCode) -> ConnectError {
    let address = address.clone();
    if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
        ConnectError::Unauthorized { address }
    } else {
        ConnectError::Status { address, status }
    }
}

fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(4 * FRAME_BYTES_MAX)
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX))
}
