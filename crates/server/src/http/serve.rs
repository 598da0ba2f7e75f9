//! The sockets under the API: how many, how patient, and how they end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use crate::app::stopped;

/// Room for a request's line and headers. What does not fit (hyper may take up to twice as much in one read) is answered
/// with 431, as are more than hyper's own limit of a hundred headers.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// After an error of `accept`, such as too many open files: long enough not to spin, short enough not to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What one server puts up with.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at one time; more wait in the kernel's queue. Links of workers do not count once they are up.
    pub connections: usize,
    /// For all headers of a request, and for the pause between two requests of one connection.
    pub header_timeout: Duration,
    /// For requests in flight when the server stops.
    pub stop_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 4_096, header_timeout: Duration::from_secs(30), stop_grace: Duration::from_secs(10) }
    }
}

/// Answers requests until `shutdown` becomes true; then lets those in flight finish, and returns.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, mut shutdown: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        // Reaped here, so that the set does not grow with every connection that ever was.
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            biased;
            () = stopped(&mut shutdown) => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let (stream, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = answer(stream, router.clone(), limits, shutdown.clone());
        connections.spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.stop_grace, all).await.is_err() {
        tracing::warn!(left = connections.len(), "connections did not end in time and are cut");
    }
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Answers are small and awaited: nothing is gained by holding them back.
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}

async fn answer(stream: TcpStream, router: Router, limits: Limits, mut shutdown: watch::Receiver<bool>) {
    let service = service_fn(move |request: Request<Incoming>| router.clone().oneshot(request.map(Body::new)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut shutdown) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients go away all the time.
        tracing::debug!(%error, "a connection ended early");
    }
}
