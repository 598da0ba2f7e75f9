//! Ctrl-C while following: first a request to cancel, then force, then out.

use std::io;
use std::time::Duration;

use client::Client;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Between two tries to reach a server that is away.
const ASK_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Interrupts {
    /// None: Ctrl-C has its default and ends the process.
    signal: Option<Signal>,
    count: u32,
    /// Requests on their way; they end with us.
    asking: JoinSet<()>,
}

impl Interrupts {
    pub(crate) fn new(wanted: bool) -> io::Result<Interrupts> {
        let signal = if wanted { Some(signal(SignalKind::interrupt())?) } else { None };
        Ok(Interrupts { signal, count: 0, asking: JoinSet::new() })
    }

    /// The next Ctrl-C. May be dropped and called again.
    pub(crate) async fn next(&mut self) {
        let arrived = match &mut self.signal {
            Some(signal) => signal.recv().await,
            None => None,
        };
        match arrived {
            Some(()) => self.count += 1,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Asks the server, again and again while it is away; forced from the second Ctrl-C on.
    pub(crate) fn ask(&mut self, client: Client, id: String) {
        let force = self.count > 1;
        self.asking.spawn(async move {
            while client.cancel(&id, force).await.is_err_and(|error| error.is_passing()) {
                sleep(ASK_PAUSE).await;
            }
        });
    }
}
