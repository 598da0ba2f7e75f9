//! The server's socket, before there is a server behind it: while the database is waited for, whoever knocks hears so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::{ErrorCode, Readiness};
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::http::{self as pages, ApiError, Limits};

/// Answers from here are made of nothing: whoever has not got one by now gets none.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// A socket that listens, and answers that the server is starting until [`Door::open`].
pub struct Door {
    pub address: SocketAddr,
    listener: std::net::TcpListener,
    /// Why it takes long.
    why: watch::Sender<String>,
    closing: watch::Sender<bool>,
    waiting: Option<JoinHandle<()>>,
}

impl Door {
    /// Listens, and answers by itself.
    pub async fn listen(address: &str) -> std::io::Result<Door> {
        let listener = TcpListener::bind(address).await?.into_std()?;
        let address = listener.local_addr()?;
        let (why, reason) = watch::channel("it has only just been started".to_owned());
        let (closing, closes) = watch::channel(false);
        let limits = Limits { stop_grace: CLOSE_WITHIN, ..Limits::default() };
        let waiting = pages::serve(TcpListener::from_std(listener.try_clone()?)?, router(reason), limits, closes);
        Ok(Door { address, listener, why, closing, waiting: Some(tokio::spawn(waiting)) })
    }

    /// What whoever knocks is told.
    pub fn say(&self, why: String) {
        self.why.send_replace(why);
    }

    /// From here on somebody else answers. Who knocks in between waits for that.
    pub(crate) async fn open(&mut self) -> std::io::Result<TcpListener> {
        self.closing.send_replace(true);
        if let Some(waiting) = self.waiting.take()
            && let Err(error) = waiting.await
        {
            tracing::error!(%error, "what answered at the door did not end well");
        }
        TcpListener::from_std(self.listener.try_clone()?)
    }
}

/// The process is there; everything else is not.
fn router(why: watch::Receiver<String>) -> Router {
    Router::new()
        .route("/healthz", get(pages::healthz))
        .route("/readyz", get(not_ready))
        .fallback(not_yet)
        .with_state(Arc::new(why))
}

type Why = State<Arc<watch::Receiver<String>>>;

async fn not_ready(State(why): Why) -> Response {
    let problems = vec![starting(&why)];
    let readiness = Readiness { ready: false, problems, sweep: None, retention: None, dispatch: None };
    pages::answer(StatusCode::SERVICE_UNAVAILABLE, &readiness)
}

async fn not_yet(State(why): Why) -> ApiError {
    ApiError::new(ErrorCode::Unavailable, starting(&why))
}

fn starting(why: &watch::Receiver<String>) -> String {
    format!("the server is starting: {}", *why.borrow())
}
