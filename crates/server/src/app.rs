//! What every request handler shares. Made once at the start, by whoever puts a server together.

use std::sync::Arc;
use std::time::Duration;

use engine::Clocks;
use protocol::link::LinkSettings;
use store::{Reader, StoreError};
use tokio::sync::watch;

use crate::access::{Access, Secrets};
use crate::artifacts::Depot;
use crate::bus::Bus;
use crate::clock::Clock;
use crate::http::{ApiError, WorkerNames};
use crate::ledger::{Definitions, Ledger};
use crate::metrics::Metrics;
use crate::retention::RetentionRules;
use crate::tasks::TaskRegistry;

pub struct App {
    /// The way to change anything.
    pub ledger: Ledger,
    /// The way to look.
    pub reader: Arc<dyn Reader>,
    /// The way to follow.
    pub bus: Bus,
    pub definitions: Arc<Definitions>,
    pub tasks: Arc<TaskRegistry>,
    pub access: Arc<Access>,
    pub secrets: Arc<Secrets>,
    /// Files that steps left.
    pub artifacts: Arc<Depot>,
    pub metrics: Arc<Metrics>,
    pub clock: Arc<Clock>,
    pub names: WorkerNames,
    /// How long a worker without a link is waited for.
    pub recovery_window: Duration,
    /// How often workers and runners are to be heard, among other things.
    pub link: LinkSettings,
    /// How long what is over is kept.
    pub retention: RetentionRules,
    /// Becomes true when the server stops: waits and streams end then.
    pub shutdown: watch::Receiver<bool>,
}

impl App {
    /// Looks at the store on a thread that may wait for the disk.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl FnOnce(&App) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let app = self.clone();
        match tokio::task::spawn_blocking(move || look(&app)).await {
            Ok(found) => found,
            Err(error) => Err(ApiError::internal(&error)),
        }
    }

    /// Both clocks now, as far as marks say.
    pub(crate) fn clocks(&self) -> Result<Clocks, StoreError> {
        let now = self.clock.now();
        Ok(self.reader.hearing()?.map_or_else(|| Clocks::never_deaf(now), |row| row.clocks(now)))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.shutdown.borrow()
    }
}

/// Returns when the server stops. Whoever could say so being gone means the same.
pub(crate) async fn stopped(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stopping| *stopping).await;
}
